-- star
SELECT * FROM people

PrivacyError returns-rows at 1:8+1
error: the query returns rows of a private table, people
   1 | SELECT * FROM people
     |        ^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- columns
SELECT name, age FROM people WHERE id = 77

PrivacyError returns-rows at 1:8+9
error: the query returns rows of a private table, people
   1 | SELECT name, age FROM people WHERE id = 77
     |        ^^^^^^^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- a constant per row
SELECT 1 FROM people

PrivacyError returns-rows at 1:8+1
error: the query returns rows of a private table, people
   1 | SELECT 1 FROM people
     |        ^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- from alone
FROM people

PrivacyError returns-rows at 1:6+6
error: the query returns rows of a private table, people
   1 | FROM people
     |      ^^^^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- a CTE of rows
WITH c AS (SELECT age FROM people) SELECT age FROM c

PrivacyError returns-rows at 1:43+3
error: the query returns rows of a private table, people
   1 | WITH c AS (SELECT age FROM people) SELECT age FROM c
     |                                           ^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- ordered rows
SELECT age FROM people ORDER BY age

PrivacyError returns-rows at 1:8+3
error: the query returns rows of a private table, people
   1 | SELECT age FROM people ORDER BY age
     |        ^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- LIMIT over rows
SELECT age FROM people LIMIT 1

PrivacyError limit-private at 1:30+1
error: LIMIT over private rows picks some people's rows and not others'
   1 | SELECT age FROM people LIMIT 1
     |                              ^
help: aggregate first; LIMIT works on the result
----
-- LIMIT below a release
SELECT COUNT(*) FROM (SELECT * FROM people LIMIT 10)

PrivacyError limit-private at 1:50+2
error: LIMIT over private rows picks some people's rows and not others'
   1 | SELECT COUNT(*) FROM (SELECT * FROM people LIMIT 10)
     |                                                  ^^
help: aggregate first; LIMIT works on the result
----
-- LIMIT below a release, in a CTE
WITH c AS (SELECT * FROM people ORDER BY age LIMIT 10)
SELECT COUNT(*) FROM c

PrivacyError limit-private at 1:52+2
error: LIMIT over private rows picks some people's rows and not others'
   1 | WITH c AS (SELECT * FROM people ORDER BY age LIMIT 10)
     |                                                    ^^
help: aggregate first; LIMIT works on the result
----
-- OFFSET below a release
SELECT COUNT(*) FROM (SELECT * FROM people OFFSET 10)

PrivacyError limit-private at 1:51+2
error: OFFSET over private rows picks some people's rows and not others'
   1 | SELECT COUNT(*) FROM (SELECT * FROM people OFFSET 10)
     |                                                   ^^
help: aggregate first; LIMIT works on the result
----
-- LIMIT by percent
SELECT COUNT(*) FROM people LIMIT 10%

SQLError limit at 1:35+2
error: LIMIT … % is not supported
   1 | SELECT COUNT(*) FROM people LIMIT 10%
     |                                   ^^
help: write a number of rows: LIMIT 10
----
-- LIMIT by a subquery
SELECT COUNT(*) FROM people LIMIT (SELECT 1)

SQLError limit at 1:43+1
error: LIMIT takes a whole number
   1 | SELECT COUNT(*) FROM people LIMIT (SELECT 1)
     |                                           ^
help: write a constant: LIMIT 10
----
-- TABLESAMPLE
SELECT COUNT(*) FROM people TABLESAMPLE 10%

SQLError unsupported at 1:41+2
error: sampling rows has no bound on what one person changes
   1 | SELECT COUNT(*) FROM people TABLESAMPLE 10%
     |                                         ^^
help: leave it out: noise protects each person
----
-- USING SAMPLE
SELECT COUNT(*) FROM people USING SAMPLE 10 ROWS

SQLError unsupported at 1:42+2
error: sampling rows has no bound on what one person changes
   1 | SELECT COUNT(*) FROM people USING SAMPLE 10 ROWS
     |                                          ^^
help: leave it out: noise protects each person
----
-- TABLESAMPLE in a subquery
SELECT COUNT(*) FROM (SELECT * FROM people TABLESAMPLE reservoir(10))

SQLError unsupported at 1:66+2
error: sampling rows has no bound on what one person changes
   1 | SELECT COUNT(*) FROM (SELECT * FROM people TABLESAMPLE reservoir(10))
     |                                                                  ^^
help: leave it out: noise protects each person
----
-- TABLESAMPLE after parentheses around a table
SELECT COUNT(*) FROM (people) TABLESAMPLE 10%

SQLError unsupported at 1:43+2
error: sampling rows has no bound on what one person changes
   1 | SELECT COUNT(*) FROM (people) TABLESAMPLE 10%
     |                                           ^^
help: leave it out: noise protects each person
----
-- FETCH FIRST of a share of the rows
SELECT region, COUNT(*) FROM people GROUP BY region FETCH FIRST 3 PERCENT ROWS ONLY

SQLError limit at 1:65+1
error: LIMIT takes a whole number
   1 | SELECT region, COUNT(*) FROM people GROUP BY region FETCH FIRST 3 PERCENT ROWS ONLY
     |                                                                 ^
help: write a constant: LIMIT 10
----
-- FETCH FIRST with ties
SELECT region, COUNT(*) FROM people GROUP BY region FETCH FIRST 3 ROWS WITH TIES

SQLError limit at 1:65+1
error: LIMIT takes a whole number
   1 | SELECT region, COUNT(*) FROM people GROUP BY region FETCH FIRST 3 ROWS WITH TIES
     |                                                                 ^
help: write a constant: LIMIT 10
----
-- row number below a release
SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER () AS i FROM people) WHERE i < 10

PrivacyError window-private at 1:30+12
error: a window over private rows mixes people, unless it is partitioned by their unit
   1 | SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER () AS i FROM people) WHERE i < 10
     |                              ^^^^^^^^^^^^
help: aggregate first, windows work on the result; or write OVER (PARTITION BY PRIVACY_UNIT() ORDER BY …)
----
-- rank below a release
SELECT SUM(r) FROM (SELECT RANK() OVER (ORDER BY age) AS r FROM people)

PrivacyError window-private at 1:28+26
error: a window over private rows mixes people, unless it is partitioned by their unit
   1 | SELECT SUM(r) FROM (SELECT RANK() OVER (ORDER BY age) AS r FROM people)
     |                            ^^^^^^^^^^^^^^^^^^^^^^^^^^
help: aggregate first, windows work on the result; or write OVER (PARTITION BY PRIVACY_UNIT() ORDER BY …)
----
-- ntile below a release
SELECT q, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY age) AS q FROM people) GROUP BY q

PrivacyError window-private at 1:33+28
error: a window over private rows mixes people, unless it is partitioned by their unit
   1 | SELECT q, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY age) AS q FROM people) GROUP BY q
     |                                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: aggregate first, windows work on the result; or write OVER (PARTITION BY PRIVACY_UNIT() ORDER BY …)
----
-- lag below a release
SELECT SUM(age - p) FROM (SELECT age, LAG(age) OVER (ORDER BY id) AS p FROM people)

PrivacyError window-private at 1:39+27
error: a window over private rows mixes people, unless it is partitioned by their unit
   1 | SELECT SUM(age - p) FROM (SELECT age, LAG(age) OVER (ORDER BY id) AS p FROM people)
     |                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: aggregate first, windows work on the result; or write OVER (PARTITION BY PRIVACY_UNIT() ORDER BY …)
----
-- window in WHERE
SELECT COUNT(*) FROM people WHERE ROW_NUMBER() OVER () < 5

PrivacyError window-private at 1:35+12
error: a window over private rows can't stand here
   1 | SELECT COUNT(*) FROM people WHERE ROW_NUMBER() OVER () < 5
     |                                   ^^^^^^^^^^^^
help: compute it in a derived table, partitioned by the unit; or aggregate first
----
-- window inside an aggregate
SELECT SUM(ROW_NUMBER() OVER ()) FROM people

PrivacyError window-private at 1:12+12
error: a window over private rows can't stand here
   1 | SELECT SUM(ROW_NUMBER() OVER ()) FROM people
     |            ^^^^^^^^^^^^
help: compute it in a derived table, partitioned by the unit; or aggregate first
----
-- window over a private column
SELECT age, SUM(age) OVER (ORDER BY age) FROM people

PrivacyError window-private at 1:13+28
error: a window over private rows mixes people, unless it is partitioned by their unit
   1 | SELECT age, SUM(age) OVER (ORDER BY age) FROM people
     |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: aggregate first, windows work on the result; or write OVER (PARTITION BY PRIVACY_UNIT() ORDER BY …)
----
-- QUALIFY over rows
SELECT age FROM people QUALIFY ROW_NUMBER() OVER (ORDER BY age) = 1

PrivacyError window-private at 1:32+32
error: a window over private rows mixes people, unless it is partitioned by their unit
   1 | SELECT age FROM people QUALIFY ROW_NUMBER() OVER (ORDER BY age) = 1
     |                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: aggregate first, windows work on the result; or write OVER (PARTITION BY PRIVACY_UNIT() ORDER BY …)
----
-- DISTINCT ON
SELECT DISTINCT ON (region) region, age FROM people

PrivacyError limit-private at 1:21+6
error: DISTINCT ON over private rows picks some people's rows and not others'
   1 | SELECT DISTINCT ON (region) region, age FROM people
     |                     ^^^^^^
help: take rows of each unit: DISTINCT ON (unit), without QUALIFY; or aggregate first, DISTINCT ON works on the result
----
-- UNION of values that are not public
SELECT debt FROM people UNION SELECT debt FROM people WHERE age > 9

PrivacyError private-keys at 1:8+4
error: the values of debt are not public; selecting keys privately takes δ > 0
   1 | SELECT debt FROM people UNION SELECT debt FROM people WHERE age > 9
     |        ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = …, max = … }, and group by CAST(FLOOR(debt) AS INTEGER)
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- EXCEPT ALL of rows
SELECT age FROM people EXCEPT ALL SELECT age FROM people WHERE id = 77

PrivacyError set-operation-private at 1:8+63
error: EXCEPT ALL compares rows of different people
   1 | SELECT age FROM people EXCEPT ALL SELECT age FROM people WHERE id = 77
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave ALL out: then which values there are is measured; or select the unit, too, in the same place on both sides, so that each person's rows are compared with their own
----
-- INTERSECT ALL of rows
SELECT age FROM people INTERSECT ALL SELECT age FROM people

PrivacyError set-operation-private at 1:8+52
error: INTERSECT ALL compares rows of different people
   1 | SELECT age FROM people INTERSECT ALL SELECT age FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave ALL out: then which values there are is measured; or select the unit, too, in the same place on both sides, so that each person's rows are compared with their own
----
-- UNION of rows and public rows
SELECT code FROM people UNION ALL SELECT code FROM codes

PrivacyError union-public at 1:8+49
error: UNION of private rows and public ones: the public rows belong to nobody
   1 | SELECT code FROM people UNION ALL SELECT code FROM codes
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: aggregate the private side first, then combine the results
----
-- scalar subquery of rows
SELECT (SELECT age FROM people WHERE id = 77)

PrivacyError returns-rows at 1:16+3
error: a subquery returns rows of a private table, people
   1 | SELECT (SELECT age FROM people WHERE id = 77)
     |                ^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- EXISTS over rows
SELECT label FROM codes WHERE EXISTS (SELECT 1 FROM people WHERE id = 77)

PrivacyError returns-rows at 1:46+1
error: a subquery returns rows of a private table, people
   1 | SELECT label FROM codes WHERE EXISTS (SELECT 1 FROM people WHERE id = 77)
     |                                              ^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- ANY over rows
SELECT label FROM codes WHERE code > ANY (SELECT code FROM people)

PrivacyError returns-rows at 1:50+4
error: a subquery returns rows of a private table, people
   1 | SELECT label FROM codes WHERE code > ANY (SELECT code FROM people)
     |                                                  ^^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- minimum without a range
SELECT MIN(debt) FROM people

PrivacyError needs-range at 1:12+4
error: MIN needs a range for people.debt
   1 | SELECT MIN(debt) FROM people
     |            ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: MIN(CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- maximum of text
SELECT MAX(name) FROM people

SQLError type at 1:12+4
error: MAX takes a number, not VARCHAR
   1 | SELECT MAX(name) FROM people
     |            ^^^^
help: write MAX(CLIP(TRY_CAST(name AS DOUBLE), low, high)), where low and high are the least and the greatest value that you expect
----
-- median of distinct values
SELECT MEDIAN(DISTINCT age) FROM people

PrivacyError distinct at 1:8+20
error: MEDIAN(DISTINCT age): distinct values can only be counted
   1 | SELECT MEDIAN(DISTINCT age) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^
help: leave DISTINCT out: MEDIAN(age)
      or keep the values that enough rows have: SELECT MEDIAN(x) FROM (SELECT age AS x FROM … GROUP BY 1 HAVING COUNT(*) > 50)
----
-- list
SELECT LIST(name) FROM people

PrivacyError unsupported-aggregate at 1:8+10
error: LIST shows single rows, and no noise hides that
   1 | SELECT LIST(name) FROM people
     |        ^^^^^^^^^^
help: what can be asked of private rows: APPROX_QUANTILE, AVG, BOOL_AND, BOOL_OR, CORR, COUNT, COVAR_POP, COVAR_SAMP, ENTROPY, GEOMEAN, KURTOSIS, KURTOSIS_POP, MAD, MAX, MEDIAN, MIN, QUANTILE_CONT, QUANTILE_DISC, REGR_AVGX, REGR_AVGY, REGR_COUNT, REGR_INTERCEPT, REGR_R2, REGR_SLOPE, REGR_SXX, REGR_SXY, REGR_SYY, SEM, SKEWNESS, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
----
-- string_agg
SELECT STRING_AGG(name, ',') FROM people

PrivacyError unsupported-aggregate at 1:8+21
error: STRING_AGG shows single rows, and no noise hides that
   1 | SELECT STRING_AGG(name, ',') FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^
help: what can be asked of private rows: APPROX_QUANTILE, AVG, BOOL_AND, BOOL_OR, CORR, COUNT, COVAR_POP, COVAR_SAMP, ENTROPY, GEOMEAN, KURTOSIS, KURTOSIS_POP, MAD, MAX, MEDIAN, MIN, QUANTILE_CONT, QUANTILE_DISC, REGR_AVGX, REGR_AVGY, REGR_COUNT, REGR_INTERCEPT, REGR_R2, REGR_SLOPE, REGR_SXX, REGR_SXY, REGR_SYY, SEM, SKEWNESS, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
----
-- any_value
SELECT ANY_VALUE(name) FROM people

PrivacyError unsupported-aggregate at 1:8+15
error: ANY_VALUE shows single rows, and no noise hides that
   1 | SELECT ANY_VALUE(name) FROM people
     |        ^^^^^^^^^^^^^^^
help: it can be taken of what depends on the keys alone: ANY_VALUE(UPPER(k)) … GROUP BY k
----
-- arg_max
SELECT ARG_MAX(name, age) FROM people

PrivacyError unsupported-aggregate at 1:8+18
error: ARG_MAX shows single rows, and no noise hides that
   1 | SELECT ARG_MAX(name, age) FROM people
     |        ^^^^^^^^^^^^^^^^^^
help: what can be asked of private rows: APPROX_QUANTILE, AVG, BOOL_AND, BOOL_OR, CORR, COUNT, COVAR_POP, COVAR_SAMP, ENTROPY, GEOMEAN, KURTOSIS, KURTOSIS_POP, MAD, MAX, MEDIAN, MIN, QUANTILE_CONT, QUANTILE_DISC, REGR_AVGX, REGR_AVGY, REGR_COUNT, REGR_INTERCEPT, REGR_R2, REGR_SLOPE, REGR_SXX, REGR_SXY, REGR_SYY, SEM, SKEWNESS, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
----
-- mode
SELECT MODE(name) FROM people

PrivacyError private-keys at 1:13+4
error: the values of name are not public; selecting keys privately takes δ > 0
   1 | SELECT MODE(name) FROM people
     |             ^^^^
help: list them in the policy: [tables.people.columns] name = { values = ["…", "…"] } or { references = "table.column" }
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- sum distinct of two
SELECT SUM(DISTINCT (id, age)) FROM people

SQLError distinct at 1:8+23
error: DISTINCT takes one expression here
   1 | SELECT SUM(DISTINCT (id, age)) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^
help: combinations of values can only be counted: COUNT(DISTINCT (a, b))
----
-- sum distinct
SELECT SUM(DISTINCT age) FROM people

PrivacyError distinct at 1:8+17
error: SUM(DISTINCT age): distinct values can only be counted
   1 | SELECT SUM(DISTINCT age) FROM people
     |        ^^^^^^^^^^^^^^^^^
help: leave DISTINCT out: SUM(age)
      or keep the values that enough rows have: SELECT SUM(x) FROM (SELECT age AS x FROM … GROUP BY 1 HAVING COUNT(*) > 50)
----
-- a quantile of distinct values
SELECT QUANTILE_CONT(DISTINCT age, 0.25) FROM people

PrivacyError distinct at 1:8+33
error: QUANTILE_CONT(DISTINCT age, 0.25): distinct values can only be counted
   1 | SELECT QUANTILE_CONT(DISTINCT age, 0.25) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave DISTINCT out: QUANTILE_CONT(age, 0.25)
      or keep the values that enough rows have: SELECT QUANTILE_CONT(x, 0.25) FROM (SELECT age AS x FROM … GROUP BY 1 HAVING COUNT(*) > 50)
----
-- two arguments of an approximate count
SELECT APPROX_COUNT_DISTINCT(age, region) FROM people

SQLError arity at 1:8+34
error: APPROX_COUNT_DISTINCT takes one argument
   1 | SELECT APPROX_COUNT_DISTINCT(age, region) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write APPROX_COUNT_DISTINCT(x) for each of them
----
-- histogram
SELECT HISTOGRAM(age) FROM people

PrivacyError unsupported-aggregate at 1:8+14
error: HISTOGRAM of private rows is not supported by this version
   1 | SELECT HISTOGRAM(age) FROM people
     |        ^^^^^^^^^^^^^^
help: count by value: SELECT x, COUNT(*) … GROUP BY x
----
-- a subquery that looks at what is no key
SELECT region, (SELECT MAX(label) FROM codes WHERE codes.code = people.code) AS l, COUNT(*) FROM people GROUP BY region

SQLError not-grouped at 1:72+4
error: code must be in GROUP BY or inside an aggregate
   1 | SELECT region, (SELECT MAX(label) FROM codes WHERE codes.code = people.code) AS l, COUNT(*) FROM people GROUP BY region
     |                                                                        ^^^^
help: add code to GROUP BY, or aggregate it: COUNT(code), AVG(code), …
----
-- distinct on
SELECT DISTINCT ON (region) region, age FROM people

PrivacyError limit-private at 1:21+6
error: DISTINCT ON over private rows picks some people's rows and not others'
   1 | SELECT DISTINCT ON (region) region, age FROM people
     |                     ^^^^^^
help: take rows of each unit: DISTINCT ON (unit), without QUALIFY; or aggregate first, DISTINCT ON works on the result
----
-- lateral over private rows
SELECT COUNT(*) FROM people, LATERAL (SELECT people.age + 1 AS b) l

PrivacyError join-kind at 1:53+7
error: LATERAL works beside results and public tables, not beside private rows
   1 | SELECT COUNT(*) FROM people, LATERAL (SELECT people.age + 1 AS b) l
     |                                                     ^^^^^^^
help: compute the expression in the SELECT list of a subquery
----
-- lateral that counts private rows for each row
SELECT c.label, l.n FROM codes c, LATERAL (SELECT COUNT(*) AS n FROM people WHERE people.code = c.code) l

PrivacyError correlated at 1:99+4
error: code belongs to an outer query, and this subquery can't look at it
   1 | SELECT c.label, l.n FROM codes c, LATERAL (SELECT COUNT(*) AS n FROM people WHERE people.code = c.code) l
     |                                                                                                   ^^^^
help: aggregate in a CTE and join the result; or compare the unit of both queries with =
----
-- anti join of private rows
SELECT label FROM codes ANTI JOIN people USING (code)

PrivacyError outer-join at 1:35+6
error: a row of the public side without a match would show that nobody has one
   1 | SELECT label FROM codes ANTI JOIN people USING (code)
     |                                   ^^^^^^
help: put the private table on the left of the LEFT JOIN, or aggregate it before you join
----
-- positional join of private rows
SELECT COUNT(*) FROM people POSITIONAL JOIN codes

PrivacyError join-kind at 1:45+5
error: POSITIONAL JOIN works on results and public tables, not on private rows
   1 | SELECT COUNT(*) FROM people POSITIONAL JOIN codes
     |                                             ^^^^^
help: aggregate the private table in a CTE, then join the result
----
-- as-of join of private rows
SELECT COUNT(*) FROM people p ASOF JOIN visits v ON p.age >= v.age

PrivacyError join-kind at 1:41+6
error: ASOF JOIN works on results and public tables, not on private rows
   1 | SELECT COUNT(*) FROM people p ASOF JOIN visits v ON p.age >= v.age
     |                                         ^^^^^^
help: aggregate the private table in a CTE, then join the result
----
-- distinct on over groups of one unit
SELECT COUNT(*) FROM (SELECT DISTINCT ON (kind) id, kind, COUNT(*) AS n FROM orders GROUP BY id, kind)

PrivacyError limit-private at 1:43+4
error: DISTINCT ON over private rows picks some people's rows and not others'
   1 | SELECT COUNT(*) FROM (SELECT DISTINCT ON (kind) id, kind, COUNT(*) AS n FROM orders GROUP BY id, kind)
     |                                           ^^^^
help: take rows of each unit: DISTINCT ON (unit), without QUALIFY; or aggregate first, DISTINCT ON works on the result
----
-- quantile without a share
SELECT QUANTILE_CONT(age) FROM people

SQLError arity at 1:8+18
error: QUANTILE_CONT needs a share of the rows
   1 | SELECT QUANTILE_CONT(age) FROM people
     |        ^^^^^^^^^^^^^^^^^^
help: write QUANTILE_CONT(x, 0.5)
----
-- quantile above one
SELECT QUANTILE_CONT(age, 1.5) FROM people

SQLError quantile at 1:8+23
error: a quantile's share is a number from 0 to 1, with at most 6 digits
   1 | SELECT QUANTILE_CONT(age, 1.5) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^
help: write QUANTILE_CONT(x, 0.5)
----
-- quantile at a column
SELECT QUANTILE_DISC(age, height) FROM people

SQLError quantile at 1:8+26
error: a quantile's share is a number from 0 to 1, with at most 6 digits
   1 | SELECT QUANTILE_DISC(age, height) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write QUANTILE_CONT(x, 0.5)
----
-- quantile with too many digits
SELECT region, QUANTILE_CONT(age, 0.12345678) FROM people GROUP BY region

SQLError quantile at 1:16+30
error: a quantile's share is a number from 0 to 1, with at most 6 digits
   1 | SELECT region, QUANTILE_CONT(age, 0.12345678) FROM people GROUP BY region
     |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write QUANTILE_CONT(x, 0.5)
----
-- quantiles in an empty list
SELECT QUANTILE_CONT(age, []) FROM people

SQLError quantile at 1:8+22
error: a list of quantiles has 1 to 100 shares
   1 | SELECT QUANTILE_CONT(age, []) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^
help: write QUANTILE_CONT(x, [0.25, 0.5, 0.75])
----
-- within group of two columns
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age, height) FROM people

SQLError within-group at 1:52+11
error: WITHIN GROUP takes one ORDER BY expression
   1 | SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age, height) FROM people
     |                                                    ^^^^^^^^^^^
help: write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)
----
-- maximum of several
SELECT MAX(age, 3) FROM people

SQLError arity at 1:8+11
error: MAX takes one argument
   1 | SELECT MAX(age, 3) FROM people
     |        ^^^^^^^^^^^
help: write MAX(x) for each of them
----
-- list of something else
SELECT AVG(age), [1, 2] FROM people

SQLError unsupported-expression at 1:19+4
error: lists, structs and maps can't be built or opened in a query
   1 | SELECT AVG(age), [1, 2] FROM people
     |                   ^^^^
help: use columns that are numbers, texts, dates or booleans; `dpsql functions` lists what can be used
----
-- randomized response under add_remove
SELECT RANDOMIZED_RESPONSE(answer) FROM survey

PrivacyError randomized-response at 1:8+27
error: RANDOMIZED_RESPONSE shows how many rows there are, which adjacency = "add_remove" protects
   1 | SELECT RANDOMIZED_RESPONSE(answer) FROM survey
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: it needs [privacy] adjacency = "replace_one"; here, aggregate: SELECT x, COUNT(*) … GROUP BY x
----
-- sum distinct of two without parentheses
SELECT SUM(DISTINCT id, age) FROM people

SQLError distinct at 1:8+21
error: DISTINCT takes one expression here
   1 | SELECT SUM(DISTINCT id, age) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^
help: combinations of values can only be counted: COUNT(DISTINCT (a, b))
----
-- count distinct of everything
SELECT COUNT(DISTINCT *) FROM people

SQLError unsupported at 1:23+1
error: * can't stand here
   1 | SELECT COUNT(DISTINCT *) FROM people
     |                       ^
help: name one column, or choose several: COLUMNS('^a')
----
-- count distinct lists
SELECT COUNT(DISTINCT tags) FROM people

SQLError key-type at 1:23+4
error: VARCHAR[] can't be counted DISTINCT
   1 | SELECT COUNT(DISTINCT tags) FROM people
     |                       ^^^^
help: count a number, text, a date or a timestamp: cast or extract a part of it
----
-- a third argument of a quantile
SELECT QUANTILE_CONT(age, [0.5, 0.9], 3) FROM people

SQLError arity at 1:8+13
error: QUANTILE_CONT takes two arguments
   1 | SELECT QUANTILE_CONT(age, [0.5, 0.9], 3) FROM people
     |        ^^^^^^^^^^^^^
help: write QUANTILE_CONT(x, 0.5)
----
-- median deviation of a date
SELECT MAD(born) FROM people

SQLError type at 1:12+4
error: MAD takes a number, not DATE
   1 | SELECT MAD(born) FROM people
     |            ^^^^
help: dates give numbers through YEAR(born) or DATE_DIFF('day', DATE '2000-01-01', born)
