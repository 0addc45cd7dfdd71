-- a pair, its values and all rows
-- options: {"epsilon": 1}
SELECT region, CORR(height, age) AS c, AVG(age), COUNT(*) FROM people GROUP BY region

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.0375 of the price, once
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     3 = region (3: values of people.region)
measured
       statistic                                                                  ε  share   ℓ1   ℓ2  noise             scale      grid
  [1]  count, sum, squares and products (and rows) of height and age jointly  0.481    48%    1    1  discrete Laplace   2.08  9.31e-10
  [2]  sum and count (and rows) of age jointly                                0.481    48%  120  120  discrete Laplace    249         1

output
  region        key region: no noise
  c             CORR(people.height, people.age), from [1], [2]
                range [0.5, 2.5] (people.height: policy [0.5, 2.5]); values outside are clipped
                range [0, 120] (people.age: policy [0, 120]); values outside are clipped
                within 0.108 for one cell with 95% where it has 1,000 rows, 0.14 for all 3 cells
                the error shrinks as 1/n: twice the rows, half of it
  avg(age)      AVG(people.age), from [1], [2]
                range [0, 120] (people.age: policy [0, 120]); values outside are clipped
                within 0.72 for one cell with 95% where it has 1,000 rows, 1.04 for all 3 cells
                the error shrinks as 1/n: twice the rows, half of it
  count_star()  COUNT(*), from [1], [2]
                within 8.69 for one cell with 95%
                within 11.1 for all 3 cells with 95%
----
-- a regression
-- options: {"epsilon": 1}
SELECT REGR_SLOPE(height, age), REGR_INTERCEPT(height, age), REGR_COUNT(height, age) FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.05 of the price, once
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                                                      ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count, sum, squares and products of height and age jointly  0.95    95%   1   1  discrete Laplace   1.05  9.31e-10

output
  regr_slope(height, age)      REGR_SLOPE(people.height, people.age), from [1]
                               range [0.5, 2.5] (people.height: policy [0.5, 2.5]); values outside are clipped
                               range [0, 120] (people.age: policy [0, 120]); values outside are clipped
                               within 0.000978 for one cell with 95% where it has 1,000 rows
                               the error shrinks as 1/n: twice the rows, half of it
  regr_intercept(height, age)  REGR_INTERCEPT(people.height, people.age), from [1]
                               range [0.5, 2.5] (people.height: policy [0.5, 2.5]); values outside are clipped
                               range [0, 120] (people.age: policy [0, 120]); values outside are clipped
                               within 0.0812 for one cell with 95% where it has 1,000 rows
                               the error shrinks as 1/n: twice the rows, half of it
  regr_count(height, age)      REGR_COUNT(people.height, people.age), from [1]
                               within 7.27 for one cell with 95%
----
-- shapes
-- options: {"epsilon": 1}
SELECT SKEWNESS(age), KURTOSIS(age), SEM(age) FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.0375 of the price, once
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                                                               ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count, sum, squares, third powers and fourth powers of age jointly  0.963    96%   1   1  discrete Laplace   1.04  9.31e-10

output
  skewness(age)  SKEWNESS(people.age), from [1]
                 range [0, 120] (people.age: policy [0, 120]); values outside are clipped
                 within 0.115 for one cell with 95% where it has 1,000 rows
                 the error shrinks as 1/n: twice the rows, half of it
  kurtosis(age)  KURTOSIS(people.age), from [1]
                 range [0, 120] (people.age: policy [0, 120]); values outside are clipped
                 within 0.536 for one cell with 95% where it has 1,000 rows
                 the error shrinks as 1/n: twice the rows, half of it
  sem(age)       SEM(people.age), from [1]
                 range [0, 120] (people.age: policy [0, 120]); values outside are clipped
                 within 0.0139 for one cell with 95% where it has 1,000 rows
----
-- conditions
-- options: {"epsilon": 1}
SELECT BOOL_OR(member), BOOL_AND(age > 3), COUNT_IF(age > 60) FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                                                           ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count and sum (and rows) of member and age > 3 jointly by age > 60  1   100%   1   1  discrete Laplace      1  9.31e-10

output
  bool_or(member)       BOOL_OR(people.member), from [1]
                        right with 95% where at least 7 rows decide it; where none does, noise may
  bool_and((age > 3))   BOOL_AND(people.age > 3), from [1]
                        right with 95% where at least 7 rows decide it; where none does, noise may
  count_if((age > 60))  COUNT_IF(people.age > 60), from [1]
                        within 8.41 for one cell with 95%
----
-- several averages at once
-- options: {"epsilon": 1}
SELECT AVG(age), AVG(income) FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.025 of the price, once
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                                    ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count and sum of age and income jointly  0.975    98%   1   1  discrete Laplace   1.03  9.31e-10

output
  avg(age)     AVG(people.age), from [1]
               range [0, 120] (people.age: policy [0, 120]); values outside are clipped
               within 0.611 for one cell with 95% where it has 1,000 rows
               the error shrinks as 1/n: twice the rows, half of it
  avg(income)  AVG(people.income), from [1]
               range [0, 1,000] (people.income: policy [0, 1000]); values outside are clipped
               within 5.09 for one cell with 95% where it has 1,000 rows
               the error shrinks as 1/n: twice the rows, half of it
----
-- shares
-- options: {"epsilon": 1}
SELECT COUNT_IF(age > 60), COUNT_IF(member), COUNT(*) FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                                  ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count of rows by age > 60, member jointly  1   100%   1   1  discrete Laplace      1  9.31e-10

output
  count_if((age > 60))  COUNT_IF(people.age > 60), from [1]
                        within 4.11 for one cell with 95%
  count_if(member)      COUNT_IF(people.member), from [1]
                        within 4.11 for one cell with 95%
  count_star()          COUNT(*), from [1]
                        within 5.69 for one cell with 95%
----
-- a geometric mean
-- options: {"epsilon": 1}
SELECT GEOMEAN(height) FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.0125 of the price, once
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                                ε  share    ℓ1    ℓ2  noise             scale      grid
  [1]  sum and count of LN(height) jointly  0.988    99%  1.61  1.61  discrete Laplace   1.63  9.54e-07

output
  geomean(height)  GEOMEAN(people.height), from [1]
                   range [0.5, 2.5] (people.height: policy [0.5, 2.5]); values outside are clipped
                   within 0.0122 for one cell with 95% where it has 1,000 rows
                   the error shrinks as 1/n: twice the rows, half of it
