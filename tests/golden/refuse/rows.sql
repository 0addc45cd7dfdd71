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
-- UNION of rows
SELECT COUNT(*) FROM (SELECT age FROM people UNION SELECT age FROM people)

PrivacyError set-operation-private at 1:30+44
error: UNION compares rows of different people
   1 | SELECT COUNT(*) FROM (SELECT age FROM people UNION SELECT age FROM people)
     |                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: select the unit, too, in the same place on both sides, so that each person's rows are compared with their own; or use UNION ALL
----
-- EXCEPT of rows
SELECT age FROM people EXCEPT SELECT age FROM people WHERE id = 77

PrivacyError set-operation-private at 1:8+59
error: EXCEPT compares rows of different people
   1 | SELECT age FROM people EXCEPT SELECT age FROM people WHERE id = 77
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: select the unit, too, in the same place on both sides, so that each person's rows are compared with their own; or use UNION ALL
----
-- INTERSECT of rows
SELECT age FROM people INTERSECT SELECT age FROM people

PrivacyError set-operation-private at 1:8+48
error: INTERSECT compares rows of different people
   1 | SELECT age FROM people INTERSECT SELECT age FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: select the unit, too, in the same place on both sides, so that each person's rows are compared with their own; or use UNION ALL
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
-- IN over rows
SELECT label FROM codes WHERE code IN (SELECT code FROM people)

PrivacyError returns-rows at 1:47+4
error: a subquery returns rows of a private table, people
   1 | SELECT label FROM codes WHERE code IN (SELECT code FROM people)
     |                                               ^^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- minimum
SELECT MIN(age) FROM people

PrivacyError unsupported-aggregate at 1:8+8
error: MIN of private rows is not supported by this version
   1 | SELECT MIN(age) FROM people
     |        ^^^^^^^^
help: what can be asked of private rows: AVG, COUNT, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
----
-- maximum
SELECT MAX(age) FROM people

PrivacyError unsupported-aggregate at 1:8+8
error: MAX of private rows is not supported by this version
   1 | SELECT MAX(age) FROM people
     |        ^^^^^^^^
help: what can be asked of private rows: AVG, COUNT, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
----
-- median
SELECT MEDIAN(age) FROM people

PrivacyError unsupported-aggregate at 1:8+11
error: MEDIAN of private rows is not supported by this version
   1 | SELECT MEDIAN(age) FROM people
     |        ^^^^^^^^^^^
help: what can be asked of private rows: AVG, COUNT, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
----
-- list
SELECT LIST(name) FROM people

PrivacyError unsupported-aggregate at 1:8+10
error: LIST shows single rows, and no noise hides that
   1 | SELECT LIST(name) FROM people
     |        ^^^^^^^^^^
help: what can be asked of private rows: AVG, COUNT, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
----
-- string_agg
SELECT STRING_AGG(name, ',') FROM people

PrivacyError unsupported-aggregate at 1:8+21
error: STRING_AGG shows single rows, and no noise hides that
   1 | SELECT STRING_AGG(name, ',') FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^
help: what can be asked of private rows: AVG, COUNT, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
----
-- any_value
SELECT ANY_VALUE(name) FROM people

PrivacyError unsupported-aggregate at 1:8+15
error: ANY_VALUE shows single rows, and no noise hides that
   1 | SELECT ANY_VALUE(name) FROM people
     |        ^^^^^^^^^^^^^^^
help: what can be asked of private rows: AVG, COUNT, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
----
-- arg_max
SELECT ARG_MAX(name, age) FROM people

PrivacyError unsupported-aggregate at 1:8+18
error: ARG_MAX shows single rows, and no noise hides that
   1 | SELECT ARG_MAX(name, age) FROM people
     |        ^^^^^^^^^^^^^^^^^^
help: what can be asked of private rows: AVG, COUNT, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
----
-- mode
SELECT MODE(name) FROM people

PrivacyError unsupported-aggregate at 1:8+10
error: MODE of private rows is not supported by this version
   1 | SELECT MODE(name) FROM people
     |        ^^^^^^^^^^
help: count by value: SELECT x, COUNT(*) AS n … GROUP BY x ORDER BY n DESC LIMIT 1
----
-- count distinct of a column
SELECT COUNT(DISTINCT region) FROM people

PrivacyError distinct at 1:8+22
error: COUNT(DISTINCT region): only units can be counted DISTINCT
   1 | SELECT COUNT(DISTINCT region) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^
help: count units: COUNT(DISTINCT PRIVACY_UNIT()); or leave DISTINCT out: COUNT(region)
----
-- count distinct of two
SELECT COUNT(DISTINCT (id, age)) FROM people

PrivacyError distinct at 1:8+25
error: COUNT(DISTINCT (id, age)): only units can be counted DISTINCT
   1 | SELECT COUNT(DISTINCT (id, age)) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^
help: count units: COUNT(DISTINCT PRIVACY_UNIT())
----
-- sum distinct
SELECT SUM(DISTINCT age) FROM people

PrivacyError distinct at 1:8+17
error: SUM(DISTINCT age): only units can be counted DISTINCT
   1 | SELECT SUM(DISTINCT age) FROM people
     |        ^^^^^^^^^^^^^^^^^
help: count units: COUNT(DISTINCT PRIVACY_UNIT()); or leave DISTINCT out: SUM(age)
----
-- approximate count distinct
SELECT APPROX_COUNT_DISTINCT(name) FROM people

PrivacyError unsupported-aggregate at 1:8+27
error: APPROX_COUNT_DISTINCT of private rows is not supported by this version
   1 | SELECT APPROX_COUNT_DISTINCT(name) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: count people: COUNT(DISTINCT PRIVACY_UNIT())
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
