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

PrivacyError needs-max-rows at 1:22+6
error: one unit may have any number of rows of people
   1 | SELECT COUNT(*) FROM people JOIN visits ON people.id = visits.id
     |                      ^^^^^^
help: say for how many rows one unit may count: --max-rows 20, max_rows=20, or [privacy] max_rows = 20 in the policy
----
-- join on another key
SELECT COUNT(*) FROM people a JOIN people b ON a.region = b.region

PrivacyError join-owners at 1:50+17
error: nothing says that joined rows of people and people belong to the same unit, so one could match anybody's
   1 | SELECT COUNT(*) FROM people a JOIN people b ON a.region = b.region
     |                                                  ^^^^^^^^^^^^^^^^^
help: join on the unit of both: people.id = people.id
----
-- cross join of private tables
SELECT COUNT(*) FROM people, survey

PrivacyError join-owners at 1:30+6
error: each row is a unit of its own there, so it can't be joined to another private table
   1 | SELECT COUNT(*) FROM people, survey
     |                              ^^^^^^
help: aggregate each private table in a CTE of its own, then join the results
----
-- tautological join
SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id OR TRUE

PrivacyError join-owners at 1:50+9
error: nothing says that joined rows of people and people belong to the same unit, so one could match anybody's
   1 | SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id OR TRUE
     |                                                  ^^^^^^^^^
help: join on the unit of both: people.id = people.id
----
-- shifted join
SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id + 1

PrivacyError join-owners at 1:50+13
error: nothing says that joined rows of people and people belong to the same unit, so one could match anybody's
   1 | SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id + 1
     |                                                  ^^^^^^^^^^^^^
help: join on the unit of both: people.id = people.id
----
-- left join from a public table
SELECT label, COUNT(*) FROM codes LEFT JOIN people USING (code) GROUP BY label

PrivacyError outer-join at 1:15+8
error: COUNT(*) would look at public rows without a match, and show that nobody has one
   1 | SELECT label, COUNT(*) FROM codes LEFT JOIN people USING (code) GROUP BY label
     |               ^^^^^^^^
help: aggregate columns of people: COUNT(its column), SUM(its column); or use JOIN, all public keys are shown anyway
----
-- full join
SELECT COUNT(*) FROM people FULL JOIN codes ON people.code = codes.code

PrivacyError outer-join at 1:39+5
error: a FULL JOIN makes rows for people who have none
   1 | SELECT COUNT(*) FROM people FULL JOIN codes ON people.code = codes.code
     |                                       ^^^^^
help: use JOIN, or LEFT JOIN with the private table on the left
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

PrivacyError join-kind at 1:53+7
error: LATERAL works beside results and public tables, not beside private rows
   1 | SELECT COUNT(*) FROM people, LATERAL (SELECT people.age + 1 AS b)
     |                                                     ^^^^^^^
help: compute the expression in the SELECT list of a subquery
----
-- IN over other people's rows
SELECT COUNT(*) FROM people WHERE region IN (SELECT region FROM people WHERE id = 77)

PrivacyError cross-unit at 1:35+51
error: this subquery lets rows of people decide about other people's rows
   1 | SELECT COUNT(*) FROM people WHERE region IN (SELECT region FROM people WHERE id = 77)
     |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: let it look at the same unit: unit IN (SELECT unit FROM …), or EXISTS (SELECT 1 FROM … WHERE its unit = the outer unit); or aggregate in it: a noisy value may filter rows
----
-- EXISTS about one person
SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM people WHERE name = 'n77')

PrivacyError cross-unit at 1:50+32
error: this subquery lets rows of people decide about other people's rows
   1 | SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM people WHERE name = 'n77')
     |                                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: let it look at the same unit: unit IN (SELECT unit FROM …), or EXISTS (SELECT 1 FROM … WHERE its unit = the outer unit); or aggregate in it: a noisy value may filter rows
----
-- correlated EXISTS
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.age = p.age)

PrivacyError cross-unit at 1:52+35
error: this subquery lets rows of visits decide about other people's rows
   1 | SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.age = p.age)
     |                                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: let it look at the same unit: unit IN (SELECT unit FROM …), or EXISTS (SELECT 1 FROM … WHERE its unit = the outer unit); or aggregate in it: a noisy value may filter rows
----
-- scalar subquery inside an aggregate
SELECT SUM(age - (SELECT MAX(age) FROM people)) FROM people

PrivacyError unsupported-aggregate at 1:26+8
error: MAX of private rows is not supported by this version
   1 | SELECT SUM(age - (SELECT MAX(age) FROM people)) FROM people
     |                          ^^^^^^^^
help: what can be asked of private rows: AVG, COUNT, STDDEV_POP, STDDEV_SAMP, SUM, VAR_POP, VAR_SAMP
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
SELECT COUNT(*) FROM items

PrivacyError unverified-promise at 1:22+5
error: items belongs to its units through orders, whose key (order_id) has not been verified for this data
   1 | SELECT COUNT(*) FROM items
     |                      ^^^^^
help: the steward runs: dpsql check --steward
----
-- approximately distinct units
SELECT APPROX_COUNT_DISTINCT(id) FROM people

PrivacyError unsupported-aggregate at 1:8+25
error: APPROX_COUNT_DISTINCT of private rows is not supported by this version
   1 | SELECT APPROX_COUNT_DISTINCT(id) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^
help: count people: COUNT(DISTINCT PRIVACY_UNIT())
----
-- left join from a public table, its rows
SELECT label FROM codes LEFT JOIN people USING (code)

PrivacyError outer-join at 1:35+6
error: a row of the public side without a match would show that nobody has one
   1 | SELECT label FROM codes LEFT JOIN people USING (code)
     |                                   ^^^^^^
help: put the private table on the left of the LEFT JOIN, or aggregate it before you join
----
-- left join from a public table, rows that nobody matches
SELECT label, COUNT(id) FROM codes LEFT JOIN people USING (code) WHERE people.id IS NULL GROUP BY label

PrivacyError outer-join at 1:46+6
error: a row of the public side without a match would show that nobody has one
   1 | SELECT label, COUNT(id) FROM codes LEFT JOIN people USING (code) WHERE people.id IS NULL GROUP BY label
     |                                              ^^^^^^
help: put the private table on the left of the LEFT JOIN, or aggregate it before you join
----
-- left join from a public table, an average that sees them
SELECT label, AVG(COALESCE(age, 0)) FROM codes LEFT JOIN people USING (code) GROUP BY label

PrivacyError outer-join at 1:15+21
error: AVG(COALESCE(age, 0)) would look at public rows without a match, and show that nobody has one
   1 | SELECT label, AVG(COALESCE(age, 0)) FROM codes LEFT JOIN people USING (code) GROUP BY label
     |               ^^^^^^^^^^^^^^^^^^^^^
help: aggregate columns of people: COUNT(its column), SUM(its column); or use JOIN, all public keys are shown anyway
----
-- left join from a public table, groups of a unit
SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM codes LEFT JOIN people USING (code) GROUP BY id)

PrivacyError outer-join at 1:67+6
error: a row of the public side without a match would show that nobody has one
   1 | SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM codes LEFT JOIN people USING (code) GROUP BY id)
     |                                                                   ^^^^^^
help: put the private table on the left of the LEFT JOIN, or aggregate it before you join
----
-- left join from a public table, in EXISTS
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM codes LEFT JOIN people q ON q.code = codes.code WHERE q.id = p.id)

PrivacyError outer-join at 1:75+6
error: a row of the public side without a match would show that nobody has one
   1 | SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM codes LEFT JOIN people q ON q.code = codes.code WHERE q.id = p.id)
     |                                                                           ^^^^^^
help: put the private table on the left of the LEFT JOIN, or aggregate it before you join
----
-- a unit or something else, counted
SELECT COUNT(DISTINCT CASE WHEN age > 30 THEN id ELSE age END) FROM people

PrivacyError distinct at 1:8+55
error: COUNT(DISTINCT CASE WHEN age > 30 THEN id ELSE age END): only units can be counted DISTINCT
   1 | SELECT COUNT(DISTINCT CASE WHEN age > 30 THEN id ELSE age END) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: count units: COUNT(DISTINCT PRIVACY_UNIT()); or leave DISTINCT out: COUNT(CASE WHEN age > 30 THEN id ELSE age END)
----
-- the unit in one of several grouping sets
SELECT id, region, COUNT(*) FROM people GROUP BY ROLLUP (id, region)

PrivacyError returns-rows at 1:58+10
error: one of these grouping sets keeps the unit: each of its groups would be one person's
   1 | SELECT id, region, COUNT(*) FROM people GROUP BY ROLLUP (id, region)
     |                                                          ^^^^^^^^^^
help: leave the unit out of the grouping sets; or group by it in a derived table, and aggregate once more
----
-- a correlated release without equality
SELECT COUNT(*) FROM people p WHERE age > (SELECT AVG(q.age) FROM people q WHERE q.age > p.age)

PrivacyError correlated at 1:92+3
error: age belongs to an outer query, and this subquery can't look at it
   1 | SELECT COUNT(*) FROM people p WHERE age > (SELECT AVG(q.age) FROM people q WHERE q.age > p.age)
     |                                                                                            ^^^
help: aggregate in a CTE and join the result; or compare the unit of both queries with =
----
-- distinct on something else than the unit
SELECT COUNT(*) FROM (SELECT DISTINCT ON (region) id FROM people ORDER BY region, age)

PrivacyError limit-private at 1:43+6
error: DISTINCT ON over private rows picks some people's rows and not others'
   1 | SELECT COUNT(*) FROM (SELECT DISTINCT ON (region) id FROM people ORDER BY region, age)
     |                                           ^^^^^^
help: take rows of each unit: DISTINCT ON (unit), without QUALIFY; or aggregate first, DISTINCT ON works on the result
----
-- distinct windows, ordered by something else
SELECT DISTINCT region, COUNT(*) OVER (PARTITION BY id) AS n FROM people ORDER BY age

SQLError order-by at 1:83+3
error: ORDER BY of a SELECT DISTINCT takes what is selected
   1 | SELECT DISTINCT region, COUNT(*) OVER (PARTITION BY id) AS n FROM people ORDER BY age
     |                                                                                   ^^^
help: order by an output column
----
-- IN beside groups of one unit
SELECT COUNT(*) FROM (SELECT id FROM people GROUP BY id HAVING COUNT(*) IN (SELECT 1))

PrivacyError unsupported at 1:84+1
error: a subquery here, beside groups of one unit, can only be a value that doesn't look at them
   1 | SELECT COUNT(*) FROM (SELECT id FROM people GROUP BY id HAVING COUNT(*) IN (SELECT 1))
     |                                                                                    ^
help: group in a derived table, and put the condition into the WHERE around it
