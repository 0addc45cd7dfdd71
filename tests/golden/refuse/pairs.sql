-- the first value of a pair without a range
SELECT CORR(debt, age) FROM people

PrivacyError needs-range at 1:13+4
error: CORR needs a range for people.debt
   1 | SELECT CORR(debt, age) FROM people
     |             ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: CORR(CLIP(debt, low, high), age), where low and high are the least and the greatest value that you expect
----
-- the second value of a pair without a range
SELECT CORR(age, debt) FROM people

PrivacyError needs-range at 1:18+4
error: CORR needs a range for people.debt
   1 | SELECT CORR(age, debt) FROM people
     |                  ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: CORR(age, CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- the second value of a pair without a range, under a FILTER
SELECT REGR_SLOPE(age, debt) FILTER (WHERE age > 3) FROM people

PrivacyError needs-range at 1:24+4
error: REGR_SLOPE needs a range for people.debt
   1 | SELECT REGR_SLOPE(age, debt) FILTER (WHERE age > 3) FROM people
     |                        ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: REGR_SLOPE(age, CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- a pair of text
SELECT COVAR_POP(age, name) FROM people

SQLError type at 1:23+4
error: COVAR_POP takes a number, not VARCHAR
   1 | SELECT COVAR_POP(age, name) FROM people
     |                       ^^^^
help: write COVAR_POP(age, CLIP(TRY_CAST(name AS DOUBLE), low, high)), where low and high are the least and the greatest value that you expect
----
-- a pair of something that is too wide
SELECT REGR_R2(age, age * 1e200) FROM people

PrivacyError needs-range at 1:21+11
error: REGR_R2 needs a range for age * 1e200: the one it has is too wide
   1 | SELECT REGR_R2(age, age * 1e200) FROM people
     |                     ^^^^^^^^^^^
help: clip it in the query: REGR_R2(age, CLIP(age * 1e200, low, high)), where low and high are the least and the greatest value that you expect
----
-- distinct pairs
SELECT REGR_SLOPE(DISTINCT age, height) FROM people

PrivacyError distinct at 1:8+32
error: REGR_SLOPE(DISTINCT …): pairs can't be taken DISTINCT, which lets one row stand for many
   1 | SELECT REGR_SLOPE(DISTINCT age, height) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave DISTINCT out: REGR_SLOPE(age, height)
----
-- distinct pairs of CORR
SELECT CORR(DISTINCT age, height) FROM people

SQLError arity at 1:33+1
error: CORR takes two arguments, and no DISTINCT
   1 | SELECT CORR(DISTINCT age, height) FROM people
     |                                 ^
help: write CORR(y, x)
----
-- half a pair
SELECT REGR_COUNT(age) FROM people

SQLError arity at 1:8+15
error: REGR_COUNT takes two arguments
   1 | SELECT REGR_COUNT(age) FROM people
     |        ^^^^^^^^^^^^^^^
help: write REGR_COUNT(y, x)
----
-- three values
SELECT REGR_AVGX(age, height, income) FROM people

SQLError syntax at 1:37+1
error: the SQL can't be parsed: too many arguments at )
   1 | SELECT REGR_AVGX(age, height, income) FROM people
     |                                     ^
help: check it near the mark
----
-- a distinct value of a shape
SELECT KURTOSIS(DISTINCT age) FROM people

PrivacyError distinct at 1:8+22
error: KURTOSIS(DISTINCT age): distinct values can only be counted
   1 | SELECT KURTOSIS(DISTINCT age) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^
help: leave DISTINCT out: KURTOSIS(age)
      or keep the values that enough rows have: SELECT KURTOSIS(x) FROM (SELECT age AS x FROM … GROUP BY 1 HAVING COUNT(*) > 50)
----
-- two arguments of a shape
SELECT SEM(age, height) FROM people

SQLError arity at 1:8+16
error: SEM takes one argument
   1 | SELECT SEM(age, height) FROM people
     |        ^^^^^^^^^^^^^^^^
help: write SEM(x) for each of them
----
-- contribution bounds of a pair
SELECT CORR(age, height, contribution_bounds_per_row => (0, 1)) FROM people

SQLError contribution-bounds at 1:26+37
error: contribution bounds don't say what they clip in CORR
   1 | SELECT CORR(age, height, contribution_bounds_per_row => (0, 1)) FROM people
     |                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: clip: CORR(CLIP(y, 0, 100), CLIP(x, 0, 100))
----
-- contribution bounds of a geometric mean
SELECT GEOMEAN(age, contribution_bounds_per_row => (1, 9)) FROM people

SQLError contribution-bounds at 1:21+37
error: contribution bounds don't say what they clip in GEOMEAN
   1 | SELECT GEOMEAN(age, contribution_bounds_per_row => (1, 9)) FROM people
     |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave them out: GEOMEAN(x)
----
-- a geometric mean of what may be 0
SELECT GEOMEAN(age) FROM people

PrivacyError needs-range at 1:16+3
error: GEOMEAN needs a range above 0 for age
   1 | SELECT GEOMEAN(age) FROM people
     |                ^^^
help: clip it in the query: GEOMEAN(CLIP(age, low, 120)), where low is the least value that you expect, and low is above 0
----
-- a geometric mean without a range
SELECT GEOMETRIC_MEAN(debt) FROM people

PrivacyError needs-range at 1:23+4
error: GEOMEAN needs a range above 0 for debt
   1 | SELECT GEOMETRIC_MEAN(debt) FROM people
     |                       ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }, with low above 0
      or clip it in the query: GEOMEAN(CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect, and low is above 0
----
-- the logarithm of what may be 0
SELECT EXP(AVG(LN(age))) FROM people

PrivacyError needs-range at 1:16+7
error: AVG needs a range for LN(age): it has no lower end
   1 | SELECT EXP(AVG(LN(age))) FROM people
     |                ^^^^^^^
help: clip it in the query: AVG(CLIP(LN(age), low, high)), where low and high are the least and the greatest value that you expect
----
-- all of numbers
SELECT BOOL_AND(age) FROM people

SQLError type at 1:17+3
error: BOOL_AND takes a condition, and age is INTEGER
   1 | SELECT BOOL_AND(age) FROM people
     |                 ^^^
help: compare it: age > 0
----
-- any of text
SELECT BOOL_OR(name) FROM people

SQLError type at 1:16+4
error: BOOL_OR takes a condition, and name is VARCHAR
   1 | SELECT BOOL_OR(name) FROM people
     |                ^^^^
help: compare it: name IS NOT NULL
----
-- a count by a number
SELECT COUNT_IF(age) FROM people

SQLError type at 1:17+3
error: COUNT_IF takes a condition, and age is INTEGER
   1 | SELECT COUNT_IF(age) FROM people
     |                 ^^^
help: compare it: age > 0
----
-- any value of a column that is no key
SELECT region, ANY_VALUE(age) FROM people GROUP BY region

PrivacyError unsupported-aggregate at 1:16+14
error: ANY_VALUE shows single rows, and no noise hides that
   1 | SELECT region, ANY_VALUE(age) FROM people GROUP BY region
     |                ^^^^^^^^^^^^^^
help: it can be taken of what depends on the keys alone: ANY_VALUE(UPPER(k)) … GROUP BY k
----
-- any value of a constant
SELECT ANY_VALUE(1) FROM people

PrivacyError unsupported-aggregate at 1:8+12
error: ANY_VALUE shows single rows, and no noise hides that
   1 | SELECT ANY_VALUE(1) FROM people
     |        ^^^^^^^^^^^^
help: it can be taken of what depends on the keys alone: ANY_VALUE(UPPER(k)) … GROUP BY k
----
-- any value of a key behind a filter
SELECT ANY_VALUE(region) FILTER (WHERE member) FROM people GROUP BY region

PrivacyError unsupported-aggregate at 1:8+39
error: ANY_VALUE shows single rows, and no noise hides that
   1 | SELECT ANY_VALUE(region) FILTER (WHERE member) FROM people GROUP BY region
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: it can be taken of what depends on the keys alone: ANY_VALUE(UPPER(k)) … GROUP BY k
----
-- the unit in a pair
SELECT CORR(age, PRIVACY_UNIT()) FROM people

PrivacyError privacy-unit at 1:8+25
error: PRIVACY_UNIT() stands for the owner of a private row, and can only be counted
   1 | SELECT CORR(age, PRIVACY_UNIT()) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT()) over a private table
