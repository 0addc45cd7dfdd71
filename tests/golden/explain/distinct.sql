-- one row for each unit
SELECT COUNT(DISTINCT region) FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                                               ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of distinct values of region, at most 1 per unit  1   100%   1   1  discrete Laplace      1     1

output
  count(DISTINCT region)  COUNT(DISTINCT people.region), from [1]
                          within 3 for one cell with 95%
----
-- at most so many values of each unit
-- options: {"max_rows": 5, "max_rows_per_group": 2}
SELECT kind, COUNT(DISTINCT order_id) FILTER (WHERE order_id > 0), COUNT(*) FROM orders GROUP BY kind

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.2 of the price, once
note      rows of orders whose id is NULL are left out

unit      id of orders: rows_per_unit = 3, not verified
          mass 3, peak 2, in any number of groups
enforced  max_rows = 3, max_rows_per_group = 2
cells     3 = kind (3: values of orders.kind)
measured
       statistic                                                                      ε  share  ℓ1    ℓ2  noise             scale      grid
  [1]  count of distinct values of order_id, at most 3 per unit where order_id > 0  0.4    40%   3  2.45  discrete Laplace    7.5         1
  [2]  count of rows                                                                0.4    40%   3  2.45  discrete Laplace    7.5  1.53e-05

output
  kind                                                    key kind: no noise
  count(DISTINCT order_id) FILTER (WHERE (order_id > 0))  COUNT(DISTINCT orders.order_id) FILTER(WHERE orders.order_id > 0), from [1]
                                                          within 22 for one cell with 95%
                                                          within 30.7 for all 3 cells with 95% (exactly: 31)
  count_star()                                            COUNT(*), from [2]
                                                          within 22.5 for one cell with 95%
                                                          within 30.7 for all 3 cells with 95% (exactly: 30.6)
----
-- approximately the same
-- options: {"max_rows": 3}
SELECT APPROX_COUNT_DISTINCT(age) FROM visits

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.2 of the price, once
note      rows of visits whose id is NULL are left out

unit      id of visits: a unit may have any number of rows
          mass 3, peak 3, in at most 1 group
enforced  max_rows = 3
cells     1, no GROUP BY
measured
       statistic                                              ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of distinct values of age, at most 3 per unit  0.8    80%   3   3  discrete Laplace   3.75     1

output
  approx_count_distinct(age)  APPROX_COUNT_DISTINCT(visits.age), from [1]
                              within 11 for one cell with 95%
----
-- a forged unit is a value like any other
-- options: {"max_rows": 4}
SELECT COUNT(DISTINCT id) FROM (SELECT 1 AS id FROM visits)

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.2 of the price, once
note      rows of visits whose id is NULL are left out

unit      id of visits: a unit may have any number of rows
          mass 4, peak 4, in at most 1 group
enforced  max_rows = 4
cells     1, no GROUP BY
measured
       statistic                                            ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of distinct values of 1, at most 4 per unit  0.8    80%   4   4  discrete Laplace      5     1

output
  count(DISTINCT id)  COUNT(DISTINCT subquery.id), from [1]
                      within 15 for one cell with 95%
----
-- the groups with the most values
-- options: {"max_rows": 4}
SELECT kind FROM orders GROUP BY kind ORDER BY COUNT(DISTINCT order_id) DESC LIMIT 1

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of orders whose id is NULL are left out

unit      id of orders: rows_per_unit = 3, not verified
          mass 3, peak 3, in any number of groups
enforced  max_rows = 3
cells     3 = kind (3: values of orders.kind)
measured
       statistic                                                                       ε  share  ℓ1  ℓ2  noise          scale  grid
  [1]  cell with the largest count of distinct values of order_id, at most 3 per unit  1   100%   3   3  noisy maximum      3     1

output
  kind  key kind: no noise
  not an output itself: COUNT(DISTINCT orders.order_id), from [1]
    chosen, not counted: only keys leave; the numbers themselves, with the same noise, would cost ε = 1
    a winner is at most 12.3 below the best, with 95%
----
-- the largest groups with their counts: counted, and what the keys alone would cost
-- options: {"max_rows": 4}
SELECT kind, COUNT(*) AS n FROM orders GROUP BY kind ORDER BY n DESC LIMIT 2

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.2 of the price, once
note      rows of orders whose id is NULL are left out

unit      id of orders: rows_per_unit = 3, not verified
          mass 3, peak 3, in any number of groups
enforced  max_rows = 3
cells     3 = kind (3: values of orders.kind)
measured
       statistic        ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count of rows  0.8    80%   3   3  discrete Laplace   3.75  1.53e-05

output
  kind  key kind: no noise
  n     COUNT(*), from [1]
        within 11.2 for one cell with 95%
        within 15.4 for all 3 cells with 95% (exactly: 15.3)
        counted, not chosen: the keys alone, with the same noise, would cost ε = 1.6
----
-- as many winners as there are groups: counting them costs less than choosing
-- options: {"max_rows": 4}
SELECT kind FROM orders GROUP BY kind ORDER BY COUNT(*) DESC LIMIT 3

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of orders whose id is NULL are left out

unit      id of orders: rows_per_unit = 3, not verified
          mass 3, peak 3, in any number of groups
enforced  max_rows = 3
cells     3 = kind (3: values of orders.kind)
measured
       statistic      ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count of rows  1   100%   3   3  discrete Laplace      3  1.53e-05

output
  kind  key kind: no noise
  not an output itself: COUNT(*), from [1]
    within 8.99 for one cell with 95%
    within 12.3 for all 3 cells with 95% (exactly: 12.2)
    counted, not chosen: the keys alone, with the same noise, would cost ε = 3
----
-- combinations of values, as a list that is counted
SELECT COUNT(*) FROM (SELECT DISTINCT region, born FROM people)

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                                                       ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of distinct values of (region, born), at most 1 per unit  1   100%   1   1  discrete Laplace      1     1

output
  count_star()  COUNT(DISTINCT (people.region, people.born)), from [1]
                within 3 for one cell with 95%
