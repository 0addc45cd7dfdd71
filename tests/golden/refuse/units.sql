-- a linked table
SELECT COUNT(*) FROM items

PrivacyError unverified-promise at 1:22+5
error: items belongs to its units through orders, whose key (order_id) has not been verified for this data
   1 | SELECT COUNT(*) FROM items
     |                      ^^^^^
help: the steward runs: dpsql check --steward
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

PrivacyError needs-range at 1:12+35
error: SUM needs a range for age - (SELECT MAX(age) AS "max(age)" FROM people AS people_…
   1 | SELECT SUM(age - (SELECT MAX(age) FROM people)) FROM people
     |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: clip it in the query: SUM(CLIP(age - (SELECT MAX(age) AS "max(age)" FROM people AS people_2), low, high)), where low and high are the least and the greatest value that you expect
----
-- keys to select with a limit, but no delta
-- options: {"max_rows": 5, "max_groups": 2}
SELECT age, COUNT(*) FROM visits GROUP BY age

PrivacyError private-keys at 1:43+3
error: the values of age are not public; selecting keys privately takes δ > 0
   1 | SELECT age, COUNT(*) FROM visits GROUP BY age
     |                                           ^^^
help: give age a min and a max in the policy: [tables.visits.columns] age = { min = …, max = … }
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
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
