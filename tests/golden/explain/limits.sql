-- nothing bounds the rows of a unit
SELECT COUNT(*) FROM visits

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_rows: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of visits whose id is NULL are left out

unit      id of visits: a unit may have any number of rows
          bounded by limits that are chosen first
enforced  max_rows still to be chosen
cells     1, no GROUP BY
measured
       statistic        ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  count of rows  0.8    80%  open  open  discrete Laplace   open  open

output
  count_star()  COUNT(*), from [1]
                the limit is still to be chosen; noise by the limit on rows: ± 3.74 for 1, ± 37.4 for 10, ± 374 for 100
----
-- a unit in any number of groups
SELECT kind, COUNT(DISTINCT id) FROM orders GROUP BY kind

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_groups: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of orders whose id is NULL are left out

unit      id of orders: rows_per_unit = 3, not verified
          bounded by limits that are chosen first
enforced  max_groups still to be chosen
cells     3 = kind (3: values of orders.kind)
measured
       statistic                  ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  count of distinct units  0.8    80%  open  open  discrete Laplace   open  open

output
  kind                key kind: no noise
  count(DISTINCT id)  COUNT(DISTINCT orders.id), from [1]
                      its error comes with the limits that are still to be chosen
----
-- join of private tables
SELECT COUNT(*) FROM people JOIN visits ON people.id = visits.id

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_rows: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of people whose id is NULL are left out
          rows of visits whose id is NULL are left out

unit      id of people: joined: a unit may have any number of rows
rows      scan people, unit id
          inner join on id = id_2 (units)
            scan visits, unit id_2 (id_2 = id, age_2 = age)
          bounded by limits that are chosen first
enforced  max_rows still to be chosen
cells     1, no GROUP BY
measured
       statistic        ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  count of rows  0.8    80%  open  open  discrete Laplace   open  open

output
  count_star()  COUNT(*), from [1]
                the limit is still to be chosen; noise by the limit on rows: ± 3.74 for 1, ± 37.4 for 10, ± 374 for 100
----
-- rows without a limit, in a CTE
WITH c AS (
  SELECT age FROM visits
)
SELECT COUNT(*) FROM c WHERE age > 5

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_rows: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of visits whose id is NULL are left out

unit      id of visits: a unit may have any number of rows
          bounded by limits that are chosen first
enforced  max_rows still to be chosen
cells     1, no GROUP BY
measured
       statistic        ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  count of rows  0.8    80%  open  open  discrete Laplace   open  open

output
  count_star()  COUNT(*), from [1]
                the limit is still to be chosen; noise by the limit on rows: ± 3.74 for 1, ± 37.4 for 10, ± 374 for 100
----
-- rows without a limit, under an alias
SELECT COUNT(*) FROM visits AS v WHERE v.age > 5

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_rows: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of visits whose id is NULL are left out

unit      id of visits: a unit may have any number of rows
          bounded by limits that are chosen first
enforced  max_rows still to be chosen
cells     1, no GROUP BY
measured
       statistic        ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  count of rows  0.8    80%  open  open  discrete Laplace   open  open

output
  count_star()  COUNT(*), from [1]
                the limit is still to be chosen; noise by the limit on rows: ± 3.74 for 1, ± 37.4 for 10, ± 374 for 100
----
-- rows without a limit, whatever the groups
-- options: {"max_groups": 3}
SELECT COUNT(*) FROM visits

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_rows: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of visits whose id is NULL are left out

unit      id of visits: a unit may have any number of rows
          bounded by limits that are chosen first
enforced  max_rows still to be chosen
cells     1, no GROUP BY
measured
       statistic        ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  count of rows  0.8    80%  open  open  discrete Laplace   open  open

output
  count_star()  COUNT(*), from [1]
                the limit is still to be chosen; noise by the limit on rows: ± 3.74 for 1, ± 37.4 for 10, ± 374 for 100
----
-- keys to select, and units in any number of groups
-- options: {"delta": 1e-06, "max_rows": 5}
SELECT age, COUNT(*) FROM visits GROUP BY age

price     ε = 1, δ = 0.000001
fits      0 more times; into a whole account, with this noise: 0 under basic
limits    max_groups: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of visits whose id is NULL are left out
          small groups are not shown; how small is known once the limits are chosen

unit      id of visits: a unit may have any number of rows
          bounded by limits that are chosen first
enforced  max_rows = 5, max_groups still to be chosen
cells     selected privately: age
          by a noisy number of their units, or of votes: chosen with the limits, which costs δ = 5e-07
          the values of age are not public; better: give age a min and a max in the policy: [tables.visits.columns] age = { min = …, max = … }
measured
       statistic                                  ε  share    ℓ1    ℓ2  noise     scale  grid
  [1]  count of rows                                  open  open  open  Gaussian   open  open
  [2]  votes of units, 1/√t for each of t groups      open  open  open  Gaussian   open  open

output
  age           key age: no noise
  count_star()  COUNT(*), from [1]
                the limit is still to be chosen; noise by the limit on rows: ± 15.7 for 1, ± 157 for 10, ± 1,571 for 100
----
-- units by group, under FILTER
SELECT kind, COUNT(DISTINCT id) FILTER (WHERE order_id > 5) FROM orders GROUP BY kind

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_groups: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of orders whose id is NULL are left out

unit      id of orders: rows_per_unit = 3, not verified
          bounded by limits that are chosen first
enforced  max_groups still to be chosen
cells     3 = kind (3: values of orders.kind)
measured
       statistic                  ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  count of distinct units  0.8    80%  open  open  discrete Laplace   open  open

output
  kind                                              key kind: no noise
  count(DISTINCT id) FILTER (WHERE (order_id > 5))  COUNT(DISTINCT orders.id) FILTER(WHERE orders.order_id > 5), from [1]
                                                    its error comes with the limits that are still to be chosen
----
-- count distinct without a limit
SELECT COUNT(DISTINCT age) FROM visits

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_rows: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of visits whose id is NULL are left out

unit      id of visits: a unit may have any number of rows
          bounded by limits that are chosen first
enforced  max_rows still to be chosen
cells     1, no GROUP BY
measured
       statistic                                               ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  count of distinct values of age, at most 16 per unit  0.8    80%  open  open  discrete Laplace   open  open

output
  count(DISTINCT age)  COUNT(DISTINCT visits.age), from [1]
                       the limit is still to be chosen; noise by the limit on rows: ± 3.75 for 1, ± 37.5 for 10, ± 375 for 100
----
-- bounds per group without a limit of groups
SELECT age // 10, SUM(age, contribution_bounds_per_group => (0, 100)) FROM visits WHERE age BETWEEN 0 AND 99 GROUP BY 1

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_groups: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of visits whose id is NULL are left out

unit      id of visits: a unit may have any number of rows
          bounded by limits that are chosen first
enforced  max_groups still to be chosen
cells     10 = age // 10 (10: integers 0 to 99)
measured
       statistic                                 ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  sum of age, clipped per unit and group  0.8    80%  open  open  discrete Laplace   open  open

output
  (age // 10)  key age // 10: no noise
  sum(age)     SUM(visits.age, contribution_bounds_per_group => (0, 100)), from [1]
               what a unit adds to a group is clipped to [0, 100]
               its error comes with the limits that are still to be chosen
