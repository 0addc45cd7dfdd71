-- nothing bounds the rows of a unit
SELECT COUNT(*) FROM visits

PrivacyError needs-max-rows at 1:22+6
error: one unit may have any number of rows of visits
   1 | SELECT COUNT(*) FROM visits
     |                      ^^^^^^
help: say for how many rows one unit may count: --max-rows 20, max_rows=20, or [privacy] max_rows = 20 in the policy
----
-- a unit in any number of groups
SELECT kind, COUNT(DISTINCT id) FROM orders GROUP BY kind

PrivacyError needs-max-groups at 1:14+18
error: this counts units in each group, and nothing says in how many groups one unit may be
   1 | SELECT kind, COUNT(DISTINCT id) FROM orders GROUP BY kind
     |              ^^^^^^^^^^^^^^^^^^
help: say in how many groups one unit may count: --max-groups 4, max_groups=4, or [privacy] max_groups = 4 in the policy
----
-- a linked table
SELECT COUNT(*) FROM items

PrivacyError unverified-promise at 1:22+5
error: items belongs to its units through orders, whose key (order_id) has not been verified for this data
   1 | SELECT COUNT(*) FROM items
     |                      ^^^^^
help: the steward runs: dpsql check --steward
----
-- join of private tables
SELECT COUNT(*) FROM people JOIN visits ON people.id = visits.id

PrivacyError not-yet at 1:34+6
error: joins of private tables are not supported by this version
   1 | SELECT COUNT(*) FROM people JOIN visits ON people.id = visits.id
     |                                  ^^^^^^
help: aggregate each private table in a CTE of its own, then join the results
----
-- self join
SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id

PrivacyError not-yet at 1:36+6
error: joins of private tables are not supported by this version
   1 | SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id
     |                                    ^^^^^^
help: aggregate each private table in a CTE of its own, then join the results
----
-- join on another key
SELECT COUNT(*) FROM people a JOIN people b ON a.region = b.region

PrivacyError not-yet at 1:36+6
error: joins of private tables are not supported by this version
   1 | SELECT COUNT(*) FROM people a JOIN people b ON a.region = b.region
     |                                    ^^^^^^
help: aggregate each private table in a CTE of its own, then join the results
----
-- cross join of private tables
SELECT COUNT(*) FROM people, survey

PrivacyError not-yet at 1:30+6
error: joins of private tables are not supported by this version
   1 | SELECT COUNT(*) FROM people, survey
     |                              ^^^^^^
help: aggregate each private table in a CTE of its own, then join the results
----
-- tautological join
SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id OR TRUE

PrivacyError not-yet at 1:36+6
error: joins of private tables are not supported by this version
   1 | SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id OR TRUE
     |                                    ^^^^^^
help: aggregate each private table in a CTE of its own, then join the results
----
-- shifted join
SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id + 1

PrivacyError not-yet at 1:36+6
error: joins of private tables are not supported by this version
   1 | SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id + 1
     |                                    ^^^^^^
help: aggregate each private table in a CTE of its own, then join the results
----
-- join of private rows with a public table
SELECT label, COUNT(*) FROM people JOIN codes USING (code) GROUP BY label

PrivacyError not-yet at 1:41+5
error: joins of private tables are not supported by this version
   1 | SELECT label, COUNT(*) FROM people JOIN codes USING (code) GROUP BY label
     |                                         ^^^^^
help: aggregate the private table in a CTE, then join the result
----
-- left join from a public table
SELECT label, COUNT(id) FROM codes LEFT JOIN people USING (code) GROUP BY label

PrivacyError not-yet at 1:46+6
error: joins of private tables are not supported by this version
   1 | SELECT label, COUNT(id) FROM codes LEFT JOIN people USING (code) GROUP BY label
     |                                              ^^^^^^
help: aggregate the private table in a CTE, then join the result
----
-- full join
SELECT COUNT(*) FROM people FULL JOIN codes ON people.code = codes.code

PrivacyError not-yet at 1:39+5
error: joins of private tables are not supported by this version
   1 | SELECT COUNT(*) FROM people FULL JOIN codes ON people.code = codes.code
     |                                       ^^^^^
help: aggregate the private table in a CTE, then join the result
----
-- semi join
SELECT COUNT(*) FROM people SEMI JOIN codes USING (code)

PrivacyError join-kind at 1:39+5
error: SEMI JOIN works on results and public tables, not on private rows
   1 | SELECT COUNT(*) FROM people SEMI JOIN codes USING (code)
     |                                       ^^^^^
help: aggregate the private table in a CTE, then join the result
----
-- asof join
SELECT COUNT(*) FROM people ASOF JOIN visits ON people.id = visits.id AND people.age >= visits.age

PrivacyError join-kind at 1:39+6
error: ASOF JOIN works on results and public tables, not on private rows
   1 | SELECT COUNT(*) FROM people ASOF JOIN visits ON people.id = visits.id AND people.age >= visits.age
     |                                       ^^^^^^
help: aggregate the private table in a CTE, then join the result
----
-- positional join
SELECT COUNT(*) FROM people POSITIONAL JOIN visits

PrivacyError join-kind at 1:45+6
error: POSITIONAL JOIN works on results and public tables, not on private rows
   1 | SELECT COUNT(*) FROM people POSITIONAL JOIN visits
     |                                             ^^^^^^
help: aggregate the private table in a CTE, then join the result
----
-- lateral
SELECT COUNT(*) FROM people, LATERAL (SELECT people.age + 1 AS b)

PrivacyError lateral-private at 1:53+3
error: LATERAL looks at single rows of a private table
   1 | SELECT COUNT(*) FROM people, LATERAL (SELECT people.age + 1 AS b)
     |                                                     ^^^
help: compute the expression in the SELECT list of a subquery
----
-- IN over other people's rows
SELECT COUNT(*) FROM people WHERE region IN (SELECT region FROM people WHERE id = 77)

PrivacyError not-yet at 1:53+32
error: a subquery inside a private query is not supported by this version
   1 | SELECT COUNT(*) FROM people WHERE region IN (SELECT region FROM people WHERE id = 77)
     |                                                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: ask for the inner value first and write it as a constant
----
-- EXISTS about one person
SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM people WHERE name = 'n77')

PrivacyError not-yet at 1:50+32
error: a subquery inside a private query is not supported by this version
   1 | SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM people WHERE name = 'n77')
     |                                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: ask for the inner value first and write it as a constant
----
-- correlated EXISTS
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.age = p.age)

PrivacyError not-yet at 1:52+35
error: a subquery inside a private query is not supported by this version
   1 | SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.age = p.age)
     |                                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: ask for the inner value first and write it as a constant
----
-- scalar subquery in WHERE
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)

PrivacyError not-yet at 1:49+20
error: a subquery inside a private query is not supported by this version
   1 | SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)
     |                                                 ^^^^^^^^^^^^^^^^^^^^
help: ask for the inner value first and write it as a constant
----
-- scalar subquery inside an aggregate
SELECT SUM(age - (SELECT MAX(age) FROM people)) FROM people

PrivacyError not-yet at 1:26+20
error: a subquery inside a private query is not supported by this version
   1 | SELECT SUM(age - (SELECT MAX(age) FROM people)) FROM people
     |                          ^^^^^^^^^^^^^^^^^^^^
help: ask for the inner value first and write it as a constant
----
-- correlated scalar subquery
SELECT label, (SELECT COUNT(*) FROM people WHERE people.code = codes.code) FROM codes

PrivacyError not-yet at 1:70+4
error: code belongs to an outer query: correlated subqueries are not supported by this version
   1 | SELECT label, (SELECT COUNT(*) FROM people WHERE people.code = codes.code) FROM codes
     |                                                                      ^^^^
help: aggregate in a CTE and join the result
----
-- a forged unit
SELECT COUNT(DISTINCT id) FROM (SELECT 1 AS id, age FROM people)

PrivacyError distinct at 1:8+18
error: COUNT(DISTINCT id): only units can be counted DISTINCT
   1 | SELECT COUNT(DISTINCT id) FROM (SELECT 1 AS id, age FROM people)
     |        ^^^^^^^^^^^^^^^^^^
help: count units: COUNT(DISTINCT PRIVACY_UNIT()); or leave DISTINCT out: COUNT(id)
----
-- a shifted unit
SELECT COUNT(DISTINCT id + 1) FROM people

PrivacyError distinct at 1:8+22
error: COUNT(DISTINCT id + 1): only units can be counted DISTINCT
   1 | SELECT COUNT(DISTINCT id + 1) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^
help: count units: COUNT(DISTINCT PRIVACY_UNIT()); or leave DISTINCT out: COUNT(id + 1)
----
-- a unit in disguise
SELECT COUNT(DISTINCT id) FROM (SELECT age AS id FROM people)

PrivacyError distinct at 1:8+18
error: COUNT(DISTINCT id): only units can be counted DISTINCT
   1 | SELECT COUNT(DISTINCT id) FROM (SELECT age AS id FROM people)
     |        ^^^^^^^^^^^^^^^^^^
help: count units: COUNT(DISTINCT PRIVACY_UNIT()); or leave DISTINCT out: COUNT(id)
----
-- per-unit subquery
SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM people GROUP BY id)

PrivacyError private-keys at 1:67+2
error: id is the privacy unit: each group would be one person's
   1 | SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM people GROUP BY id)
     |                                                                   ^^
help: group by something that many people share
----
-- rows without a limit, in a CTE
WITH c AS (
  SELECT age FROM visits
)
SELECT COUNT(*) FROM c WHERE age > 5

PrivacyError needs-max-rows at 2:19+6
error: one unit may have any number of rows of visits
   2 |   SELECT age FROM visits
     |                   ^^^^^^
help: say for how many rows one unit may count: --max-rows 20, max_rows=20, or [privacy] max_rows = 20 in the policy
----
-- rows without a limit, under an alias
SELECT COUNT(*) FROM visits AS v WHERE v.age > 5

PrivacyError needs-max-rows at 1:22+6
error: one unit may have any number of rows of visits
   1 | SELECT COUNT(*) FROM visits AS v WHERE v.age > 5
     |                      ^^^^^^
help: say for how many rows one unit may count: --max-rows 20, max_rows=20, or [privacy] max_rows = 20 in the policy
----
-- rows without a limit, whatever the groups
-- options: {"max_groups": 3}
SELECT COUNT(*) FROM visits

PrivacyError needs-max-rows at 1:22+6
error: one unit may have any number of rows of visits
   1 | SELECT COUNT(*) FROM visits
     |                      ^^^^^^
help: say for how many rows one unit may count: --max-rows 20, max_rows=20, or [privacy] max_rows = 20 in the policy
----
-- keys to select, and units in any number of groups
-- options: {"delta": 1e-06, "max_rows": 5}
SELECT age, COUNT(*) FROM visits GROUP BY age

PrivacyError needs-max-groups at 1:43+3
error: the values of age are not public, so keys are selected privately, and nothing says in how many groups one unit may be
   1 | SELECT age, COUNT(*) FROM visits GROUP BY age
     |                                           ^^^
help: say in how many groups one unit may count: --max-groups 4, max_groups=4, or [privacy] max_groups = 4 in the policy
      or give it a min and a max in the policy: [tables.visits.columns] age = { min = 0, max = 100 }
----
-- keys to select with a limit, but no delta
-- options: {"max_rows": 5, "max_groups": 2}
SELECT age, COUNT(*) FROM visits GROUP BY age

PrivacyError private-keys at 1:43+3
error: the values of age are not public; selecting keys privately takes δ > 0
   1 | SELECT age, COUNT(*) FROM visits GROUP BY age
     |                                           ^^^
help: give it a min and a max in the policy: [tables.visits.columns] age = { min = 0, max = 100 }
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- units by group, under FILTER
SELECT kind, COUNT(DISTINCT id) FILTER (WHERE order_id > 5) FROM orders GROUP BY kind

PrivacyError needs-max-groups at 1:14+46
error: this counts units in each group, and nothing says in how many groups one unit may be
   1 | SELECT kind, COUNT(DISTINCT id) FILTER (WHERE order_id > 5) FROM orders GROUP BY kind
     |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: say in how many groups one unit may count: --max-groups 4, max_groups=4, or [privacy] max_groups = 4 in the policy
----
-- a linked table in a subquery
-- options: {"max_rows": 5}
SELECT COUNT(DISTINCT PRIVACY_UNIT()) FROM (SELECT * FROM items) AS i

PrivacyError unverified-promise at 1:59+5
error: items belongs to its units through orders, whose key (order_id) has not been verified for this data
   1 | SELECT COUNT(DISTINCT PRIVACY_UNIT()) FROM (SELECT * FROM items) AS i
     |                                                           ^^^^^
help: the steward runs: dpsql check --steward
----
-- limits don't verify a link
-- options: {"max_rows": 5, "max_groups": 2, "delta": 1e-06}
SELECT order_id, COUNT(*) FROM items GROUP BY order_id

PrivacyError unverified-promise at 1:32+5
error: items belongs to its units through orders, whose key (order_id) has not been verified for this data
   1 | SELECT order_id, COUNT(*) FROM items GROUP BY order_id
     |                                ^^^^^
help: the steward runs: dpsql check --steward
----
-- approximately distinct units
SELECT APPROX_COUNT_DISTINCT(id) FROM people

PrivacyError unsupported-aggregate at 1:8+25
error: APPROX_COUNT_DISTINCT of private rows is not supported by this version
   1 | SELECT APPROX_COUNT_DISTINCT(id) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^
help: count people: COUNT(DISTINCT PRIVACY_UNIT())
