-- the clause
-- options: {"epsilon": null}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2,
    max_rows_contributed = 20, privacy_unit_column = id, group_selection_strategy = LAPLACE_THRESHOLD) age, COUNT(*) FROM visits GROUP BY age

price     ε = 1, δ = 0.000001
fits      0 more times; into a whole account, with this noise: 0 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.2 of the price, once
noise     gaussian; laplace would give 1.01 times the error
note      rows of visits whose id is NULL are left out
          groups with fewer than about 43 units are not shown

unit      id of visits: a unit may have any number of rows
          mass 20, peak 20, in at most 2 groups
enforced  max_rows = 20, max_groups = 2
cells     selected privately: age
          those with noisy votes of at least 34.2 leave, which costs δ = 5e-07
          a unit has a vote of 1/√t for each of its t groups
          a key needs about 43 units; were units counted, about 48
          the values of age are not public; better: give age a min and a max in the policy: [tables.visits.columns] age = { min = …, max = … }
measured
       statistic                                  ε  share    ℓ1  ℓ2  noise     scale      grid
  [1]  count of rows                                   35%    20  20  Gaussian    182  1.53e-05
  [2]  votes of units, 1/√t for each of t groups       65%  1.41   1  Gaussian   6.67  0.000488

output
  age           key age: no noise
  count_star()  COUNT(*), from [1]
                within 356 for one cell with 95%
----
-- our own names
-- options: {"epsilon": null}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, max_rows = 20, max_rows_per_group = 5, mechanism = 'laplace')
    kind, COUNT(*) FROM orders GROUP BY kind

price     ε = 0.5, δ = 0
          protects one unit with ε = 0.5 (1 for 2 units together, 2.5 for 5 units together)
fits      200 more times; into a whole account, with this noise: 200 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.1 of the price, once
note      rows of orders whose id is NULL are left out

unit      id of orders: rows_per_unit = 3, not verified
          mass 3, peak 3, in any number of groups
enforced  max_rows = 3
cells     3 = kind (3: values of orders.kind)
measured
       statistic        ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count of rows  0.4    80%   3   3  discrete Laplace    7.5  1.53e-05

output
  kind          key kind: no noise
  count_star()  COUNT(*), from [1]
                within 22.5 for one cell with 95%
                within 30.7 for all 3 cells with 95% (exactly: 30.6)
----
-- an argument that says the same
-- options: {"epsilon": "0.50", "max_rows": 7}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = .5, max_rows_contributed = 7) COUNT(*) FROM visits

price     ε = 0.5, δ = 0
          protects one unit with ε = 0.5 (1 for 2 units together, 2.5 for 5 units together)
fits      200 more times; into a whole account, with this noise: 200 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.1 of the price, once
note      rows of visits whose id is NULL are left out

unit      id of visits: a unit may have any number of rows
          mass 7, peak 7, in at most 1 group
enforced  max_rows = 7
cells     1, no GROUP BY
measured
       statistic        ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count of rows  0.4    80%   7   7  discrete Laplace   17.5  1.53e-05

output
  count_star()  COUNT(*), from [1]
                within 52.4 for one cell with 95%
----
-- two clauses that agree
-- options: {"epsilon": null}
WITH n AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) AS n FROM people)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1.0) n FROM n

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic      ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of rows  1   100%   1   1  discrete Laplace      1     1

output
  n  COUNT(*), from [1]
     within 3 for one cell with 95%
----
-- no options
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic      ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of rows  1   100%   1   1  discrete Laplace      1     1

output
  count_star()  COUNT(*), from [1]
                within 3 for one cell with 95%
----
-- public groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = p.id, group_selection_strategy = PUBLIC_GROUPS) region, COUNT(*) FROM people AS p GROUP BY region

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     3 = region (3: values of people.region)
measured
       statistic      ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of rows  1   100%   1   1  discrete Laplace      1     1

output
  region        key region: no noise
  count_star()  COUNT(*), from [1]
                within 3 for one cell with 95%
                within 4.09 for all 3 cells with 95% (exactly: 4)
----
-- a renamed unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = u) COUNT(*) FROM (SELECT id AS u FROM people)

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic      ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of rows  1   100%   1   1  discrete Laplace      1     1

output
  count_star()  COUNT(*), from [1]
                within 3 for one cell with 95%
----
-- bounds per row
SELECT SUM(age, contribution_bounds_per_row => (0, 50)), AVG(debt, contribution_bounds_per_row => (-10, 10)) FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                              ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count and sum of age and debt jointly  1   100%   1   1  discrete Laplace      1  9.31e-10

output
  sum(age)   SUM(people.age, contribution_bounds_per_row => (0, 50)), from [1]
             range [0, 50] (people.age: policy [0, 120]; contribution_bounds_per_row => (0, 50)); values outside are clipped
             within 248 for one cell with 95%
  avg(debt)  AVG(people.debt, contribution_bounds_per_row => (-10, 10)), from [1]
             range [-10, 10] (contribution_bounds_per_row => (-10, 10)); values outside are clipped
             within 0.0993 for one cell with 95% where it has 1,000 rows
             the error shrinks as 1/n: twice the rows, half of it
----
-- bounds per group
-- options: {"max_groups": 3, "max_rows": 20}
SELECT age % 10 AS d, SUM(age, contribution_bounds_per_group => (0, 500)) AS s, COUNT(*, contribution_bounds_per_group => (0, 5)) AS n,
  COUNT(*) FROM visits GROUP BY d

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.2 of the price, once
note      rows of visits whose id is NULL are left out

unit      id of visits: a unit may have any number of rows
          mass 20, peak 20, in at most 3 groups
enforced  max_rows = 20, max_groups = 3
cells     20 = age % 10 (20: integers -9 to 9)
measured
       statistic                                      ε  share     ℓ1    ℓ2  noise             scale      grid
  [1]  sum of age, clipped per unit and group     0.267    27%  1,500   866  discrete Laplace  5,625         1
  [2]  count of rows, clipped per unit and group  0.267    27%     15  8.66  discrete Laplace   56.2         1
  [3]  count of rows                              0.267    27%     20    20  discrete Laplace     75  1.53e-05

output
  d             key age % 10: no noise
  s             SUM(visits.age, contribution_bounds_per_group => (0, 500)), from [1]
                what a unit adds to a group is clipped to [0, 500]
                within 16,851 for one cell with 95%
                within 33,702 for all 20 cells with 95% (exactly: 33,566)
  n             COUNT(*, contribution_bounds_per_group => (0, 5)), from [2]
                what a unit adds to a group is clipped to [0, 5]
                within 169 for one cell with 95%
                within 337 for all 20 cells with 95% (exactly: 336)
  count_star()  COUNT(*), from [3]
                within 225 for one cell with 95%
                within 449 for all 20 cells with 95% (exactly: 448)
----
-- bounds per group of one row
SELECT region, SUM(debt, contribution_bounds_per_group => (-5, 500)) FROM people GROUP BY region

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          in at most 1 group
enforced  nothing: every bound is proved
cells     3 = region (3: values of people.region)
measured
       statistic                                ε  share   ℓ1   ℓ2  noise             scale      grid
  [1]  sum of debt, clipped per unit and group  1   100%  500  500  discrete Laplace    500  0.000488

output
  region     key region: no noise
  sum(debt)  SUM(people.debt, contribution_bounds_per_group => (-5, 500)), from [1]
             what a unit adds to a group is clipped to [-5, 500]
             within 1,498 for one cell with 95%
             within 2,047 for all 3 cells with 95% (exactly: 2,039)
----
-- intervals
SELECT region, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) - DP_INTERVAL_LOW(n) AS width
FROM people GROUP BY region HAVING DP_INTERVAL_LOW(n) > 0

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     3 = region (3: values of people.region)
measured
       statistic      ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of rows  1   100%   1   1  discrete Laplace      1     1

output
  region  key region: no noise
  n       COUNT(*), from [1]
          within 3 for one cell with 95%
          within 4.09 for all 3 cells with 95% (exactly: 4)
  low     DP_INTERVAL_LOW(COUNT(*)): an end of its interval, with 95%
  width   computed from DP_INTERVAL_HIGH(COUNT(*)), DP_INTERVAL_LOW(COUNT(*))
