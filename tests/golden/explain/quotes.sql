-- count
SELECT COUNT(*) FROM people

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
-- histogram
SELECT region, COUNT(*) FROM people GROUP BY region

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
-- average
-- options: {"epsilon": "0.5"}
SELECT region, AVG(age) FROM people GROUP BY region

price     ε = 0.5, δ = 0
          protects one unit with ε = 0.5 (1 for 2 units together, 2.5 for 5 units together)
fits      200 more times; into a whole account, with this noise: 200 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.00625 of the price, once
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     3 = region (3: values of people.region)
measured
       statistic                         ε  share   ℓ1   ℓ2  noise             scale  grid
  [1]  sum and count of age jointly  0.494    99%  120  120  discrete Laplace    243     1

output
  region    key region: no noise
  avg(age)  AVG(people.age), from [1]
            range [0, 120] (people.age: policy [0, 120]); values outside are clipped
            within 0.728 for one cell with 95% where it has 1,000 rows, 0.991 for all 3 cells
            the error shrinks as 1/n: twice the rows, half of it
----
-- count, sum and average of one column
SELECT COUNT(*), SUM(age), AVG(age) FROM people

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
       statistic                                    ε  share   ℓ1   ℓ2  noise             scale  grid
  [1]  sum and count (and rows) of age jointly  0.975    98%  120  120  discrete Laplace    123     1

output
  count_star()  COUNT(*), from [1]
                within 5.09 for one cell with 95%
  sum(age)      SUM(people.age), from [1]
                range [0, 120] (people.age: policy [0, 120]); values outside are clipped
                within 369 for one cell with 95%
  avg(age)      AVG(people.age), from [1]
                range [0, 120] (people.age: policy [0, 120]); values outside are clipped
                within 0.369 for one cell with 95% where it has 1,000 rows
                the error shrinks as 1/n: twice the rows, half of it
----
-- two sums
SELECT SUM(age) AS years, SUM(income * (1 - height / 10)) AS money FROM people WHERE age BETWEEN 18 AND 65

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
       statistic                                                        ε  share  ℓ1  ℓ2  noise             scale      grid
  [1]  count and sum of age and income * (1 - height / 10) jointly  0.975    98%   1   1  discrete Laplace   1.03  9.31e-10

output
  years  SUM(people.age), from [1]
         range [18, 65] (people.age: policy [0, 120]; WHERE age BETWEEN 18 AND 65); values outside are clipped
         within 342 for one cell with 95%
  money  SUM(people.income * (1 - people.height / 10)), from [1]
         range [0, 950] (people.income: policy [0, 1000]; people.height: policy [0.5, 2.5]); values outside are clipped
         within 4,006 for one cell with 95%
----
-- not an output itself
SELECT region FROM people GROUP BY region HAVING COUNT(*) > 10

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
  not an output itself: COUNT(*), from [1]
    within 3 for one cell with 95%
    within 4.09 for all 3 cells with 95% (exactly: 4)
  not an output itself: which groups are there, from [1]
    those with a noisy number of rows above 3
    one with at least 6 rows is missed with at most 5%, smaller ones may be missing
    with 95% no group without rows is taken for one that is there
----
-- two releases
SELECT (SELECT COUNT(*) FROM people) AS p, (SELECT AVG(answer) FROM survey) AS a

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.0125 of the price, once
note      rows of people whose id is NULL are left out

release r0: all rows together
unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic          ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of rows  0.494    49%   1   1  discrete Laplace   2.03     1

release r1: all rows together
unit      each row of survey: each row is its own unit
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                            ε  share  ℓ1  ℓ2  noise             scale  grid
  [2]  sum and count of answer jointly  0.494    49%   4   4  discrete Laplace    8.1     1

output
  p  computed from COUNT(*)
  a  computed from AVG(survey.answer)
  not an output itself: COUNT(*), from [1]
    within 6 for one cell with 95%
  not an output itself: AVG(survey.answer), from [2]
    range [1, 5] (survey.answer: policy [1, 5]); values outside are clipped
    within 0.024 for one cell with 95% where it has 1,000 rows
    the error shrinks as 1/n: twice the rows, half of it
----
-- keys alone
SELECT DISTINCT region FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          in at most 1 group
enforced  nothing: every bound is proved
cells     3 = region (3: values of people.region)
measured
       statistic                ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of distinct units  1   100%   1   1  discrete Laplace      1     1

output
  region  key region: no noise
  not an output itself: which groups are there, from [1]
    those with a noisy number of units above 3
    one with at least 6 units is missed with at most 5%, smaller ones may be missing
    with 95% no group without rows is taken for one that is there
----
-- units
SELECT member, COUNT(DISTINCT id) FROM people GROUP BY member

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          in at most 1 group
enforced  nothing: every bound is proved
cells     3 = member (3: booleans)
measured
       statistic                ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of distinct units  1   100%   1   1  discrete Laplace      1     1

output
  member              key member: no noise
  count(DISTINCT id)  COUNT(DISTINCT people.id), from [1]
                      within 3 for one cell with 95%
                      within 4.09 for all 3 cells with 95% (exactly: 4)
----
-- public alone
SELECT label FROM codes

price     ε = 0, δ = 0
          protects one unit with ε = 0 (0 for 2 units together, 0 for 5 units together)

output
  label  public, no noise
----
-- grouping sets
SELECT region, member, AVG(age), GROUPING(region) AS g FROM people GROUP BY ROLLUP (region, member)

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.0375 of the price, once
note      rows of people whose id is NULL are left out

release r0: GROUP BY region, member
unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     9 = region (3: values of people.region) × member (3: booleans)
measured
       statistic                         ε  share   ℓ1   ℓ2  noise             scale  grid
  [1]  sum and count of age jointly  0.321    32%  120  120  discrete Laplace    374     1

release r1: GROUP BY region
unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     3 = region (3: values of people.region)
measured
       statistic                         ε  share   ℓ1   ℓ2  noise             scale  grid
  [2]  sum and count of age jointly  0.321    32%  120  120  discrete Laplace    374     1

release r2: all rows together
unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                         ε  share   ℓ1   ℓ2  noise             scale  grid
  [3]  sum and count of age jointly  0.321    32%  120  120  discrete Laplace    374     1

output
  region    key region: no noise
  member    key member: no noise
  avg(age)  AVG(people.age), from [1]
            range [0, 120] (people.age: policy [0, 120]); values outside are clipped
            within 1.12 for one cell with 95% where it has 1,000 rows, 1.93 for all 9 cells
            the error shrinks as 1/n: twice the rows, half of it
            AVG(people.age), from [2]
            range [0, 120] (people.age: policy [0, 120]); values outside are clipped
            within 1.12 for one cell with 95% where it has 1,000 rows, 1.53 for all 3 cells
            the error shrinks as 1/n: twice the rows, half of it
            AVG(people.age), from [3]
            range [0, 120] (people.age: policy [0, 120]); values outside are clipped
            within 1.12 for one cell with 95% where it has 1,000 rows
            the error shrinks as 1/n: twice the rows, half of it
  g         public, no noise
----
-- a join of private tables
-- options: {"max_rows": 20}
SELECT region, COUNT(*), AVG(income) FROM people JOIN visits ON people.id = visits.id GROUP BY region

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.2 of the price, once
note      rows of people whose id is NULL are left out
          rows of visits whose id is NULL are left out

unit      id of people: joined: a unit may have any number of rows
rows      scan people, unit id
          inner join on id = id_2 (units)
            scan visits, unit id_2 (id_2 = id, age_2 = age)
          mass 20, peak 20, in at most 1 group
enforced  max_rows = 20
cells     3 = region (3: values of people.region)
measured
       statistic                                     ε  share      ℓ1      ℓ2  noise              scale      grid
  [1]  sum and count (and rows) of income jointly  0.8    80%  20,000  20,000  discrete Laplace  25,000  4.77e-07

output
  region        key region: no noise
  count_star()  COUNT(*), from [1]
                within 124 for one cell with 95%
                within 160 for all 3 cells with 95%
  avg(income)   AVG(people.income), from [1]
                range [0, 1,000] (people.income: policy [0, 1000]); values outside are clipped
                within 74.9 for one cell with 95% where it has 1,000 rows, 102 for all 3 cells
                the error shrinks as 1/n: twice the rows, half of it
----
-- a noisy value in a filter
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
cut       what limits and ranges cut is estimated first, for ε = 0.0125 of the price, once
note      rows of people whose id is NULL are left out

release r0: all rows together
unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                         ε  share   ℓ1   ℓ2  noise             scale  grid
  [1]  sum and count of age jointly  0.494    49%  120  120  discrete Laplace    243     1

release r1: all rows together
unit      id of people: rows_per_unit = 1, verified
rows      scan people, unit id
          inner join
            given value: from earlier releases, SELECT (SELECT r0.a0 AS avg(age) FROM r0) AS value
          filter age > value
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic          ε  share  ℓ1  ℓ2  noise             scale  grid
  [2]  count of rows  0.494    49%   1   1  discrete Laplace   2.03     1

output
  count_star()  COUNT(*), from [2]
                within 6 for one cell with 95%
  not an output itself: AVG(people_2.age), from [1]
    range [0, 120] (people.age: policy [0, 120]); values outside are clipped
    within 0.728 for one cell with 95% where it has 1,000 rows
    the error shrinks as 1/n: twice the rows, half of it
----
-- a median deviation is two choices
SELECT MAD(age) FROM people

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     1, no GROUP BY
measured
       statistic                               ε  share  ℓ1  ℓ2  noise          scale  grid
  [1]  median distance of age from its median  1   100%   4   4  noisy maximum      4     1

output
  mad(age)  MAD(people.age), from [1]
            range [0, 120] (people.age: policy [0, 120]); values outside are clipped
            one of 121 values: off by up to about 17 rows in rank, for one cell with 95%
            distances are from a median that is chosen first, and as near to the exact one
----
-- entropy is computed from noisy counts
SELECT region, ENTROPY(member) AS e FROM people GROUP BY region

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

release r0: GROUP BY region, member
unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     6 = region (3: values of people.region) × member (2: booleans)
measured
       statistic      ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of rows  1   100%   1   1  discrete Laplace      1     1

release r1: GROUP BY region
unit      id of people: rows_per_unit = 1, verified
          in at most 1 group
enforced  nothing: every bound is proved
cells     3 = region (3: values of people.region)
measured
  nothing: the keys are public, and nothing else is asked for

output
  region  key region: no noise
  e       computed from COUNT(*)
  not an output itself: COUNT(*), from [1]
    within 3 for one cell with 95%
    within 4.79 for all 6 cells with 95% (exactly: 5)
----
-- steps of a bounded column
SELECT CAST(FLOOR(income / 50) * 50 AS INTEGER) AS band, COUNT(*) FROM people WHERE income < 500 GROUP BY band

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     10 = CAST(FLOOR(income / 50) * 50 AS INT) (10: whole numbers, 0 to 9)
measured
       statistic      ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of rows  1   100%   1   1  discrete Laplace      1     1

output
  band          key CAST(FLOOR(income / 50) * 50 AS INT): no noise
  count_star()  COUNT(*), from [1]
                within 3 for one cell with 95%
                within 5.3 for all 10 cells with 95% (exactly: 5)
----
-- parts of a date go together
SELECT YEAR(born) AS y, QUARTER(born) AS q, COUNT(*) FROM people WHERE born < '1991-07-01' GROUP BY y, q

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
note      rows of people whose id is NULL are left out

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     6: those that there can be of YEAR(born) (2: days 1990-01-01 to 1991-06-30) × QUARTER(born) (4: days 1990-01-01 to 1991-06-30)
measured
       statistic      ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of rows  1   100%   1   1  discrete Laplace      1     1

output
  y             key YEAR(born): no noise
  q             key QUARTER(born): no noise
  count_star()  COUNT(*), from [1]
                within 3 for one cell with 95%
                within 4.79 for all 6 cells with 95% (exactly: 5)
----
-- a key that could be written better
-- options: {"delta": "1e-6", "max_groups": 1}
SELECT seen, COUNT(*) FROM people GROUP BY seen

price     ε = 1, δ = 0.000001
fits      0 more times; into a whole account, with this noise: 0 under basic
noise     laplace; gaussian would give 1.68 times the error
note      rows of people whose id is NULL are left out
          groups with fewer than about 15 units are not shown

unit      id of people: rows_per_unit = 1, verified
          mass 1, peak 1, in at most 1 group
enforced  nothing: every bound is proved
cells     selected privately: seen
          those with a noisy number of units of at least 15 leave, which costs δ = 1e-06
          seen is TIMESTAMP, whose values aren't listed; better: group by something coarser: DATE_TRUNC('day', seen)
measured
       statistic                ε  share  ℓ1  ℓ2  noise             scale  grid
  [1]  count of distinct units  1   100%   1   1  discrete Laplace      1     1

output
  seen          key seen: no noise
  count_star()  COUNT(*), from [1]
                within 3 for one cell with 95%
