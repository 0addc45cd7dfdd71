-- private text
SELECT name, COUNT(*) FROM people GROUP BY name

PrivacyError private-keys at 1:44+4
error: the values of name are not public; selecting keys privately takes δ > 0
   1 | SELECT name, COUNT(*) FROM people GROUP BY name
     |                                            ^^^^
help: list them in the policy: [tables.people.columns] name = { values = ["…", "…"] } or { references = "table.column" }
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- private number
SELECT debt, COUNT(*) FROM people GROUP BY debt

PrivacyError private-keys at 1:44+4
error: the values of debt are not public; selecting keys privately takes δ > 0
   1 | SELECT debt, COUNT(*) FROM people GROUP BY debt
     |                                            ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = …, max = … }, and group by CAST(FLOOR(debt) AS INTEGER)
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- the unit as a key
SELECT id, COUNT(*) FROM people GROUP BY id

PrivacyError returns-rows at 1:42+2
error: GROUP BY keeps the unit of people: each group would be one person's
   1 | SELECT id, COUNT(*) FROM people GROUP BY id
     |                                          ^^
help: group by something that many people share; or aggregate once more: SELECT AVG(n) FROM (SELECT …)
----
-- one key of two is private
SELECT region, name, COUNT(*) FROM people GROUP BY region, name

PrivacyError private-keys at 1:60+4
error: the values of name are not public; selecting keys privately takes δ > 0
   1 | SELECT region, name, COUNT(*) FROM people GROUP BY region, name
     |                                                            ^^^^
help: list them in the policy: [tables.people.columns] name = { values = ["…", "…"] } or { references = "table.column" }
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- computed from private text
SELECT UPPER(name) AS u, COUNT(*) FROM people GROUP BY u

PrivacyError private-keys at 1:8+11
error: the values of name are not public; selecting keys privately takes δ > 0
   1 | SELECT UPPER(name) AS u, COUNT(*) FROM people GROUP BY u
     |        ^^^^^^^^^^^
help: list them in the policy: [tables.people.columns] name = { values = ["…", "…"] } or { references = "table.column" }
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- CASE that passes private text on
SELECT CASE WHEN age > 5 THEN name ELSE 'x' END AS c, COUNT(*) FROM people GROUP BY c

PrivacyError private-keys at 1:8+40
error: the values of name are not public; selecting keys privately takes δ > 0
   1 | SELECT CASE WHEN age > 5 THEN name ELSE 'x' END AS c, COUNT(*) FROM people GROUP BY c
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: list them in the policy: [tables.people.columns] name = { values = ["…", "…"] } or { references = "table.column" }
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- distinct private text
SELECT DISTINCT name FROM people

PrivacyError private-keys at 1:17+4
error: the values of name are not public; selecting keys privately takes δ > 0
   1 | SELECT DISTINCT name FROM people
     |                 ^^^^
help: list them in the policy: [tables.people.columns] name = { values = ["…", "…"] } or { references = "table.column" }
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- the policy says that it is no key
SELECT secret, COUNT(*) FROM people GROUP BY secret

PrivacyError private-column at 1:46+6
error: the policy says that secret may not be a group key
   1 | SELECT secret, COUNT(*) FROM people GROUP BY secret
     |                                              ^^^^^^
help: group by another column, or aggregate without it
----
-- computed from what is no key
SELECT secret || 'x' AS s, COUNT(*) FROM people GROUP BY s

PrivacyError private-column at 1:8+13
error: the policy says that secret may not be a group key
   1 | SELECT secret || 'x' AS s, COUNT(*) FROM people GROUP BY s
     |        ^^^^^^^^^^^^^
help: group by another column, or aggregate without it
----
-- too many integers
SELECT wide, COUNT(*) FROM survey GROUP BY wide

PrivacyError private-keys at 1:44+4
error: wide can have 50,000 values, and at most 10,000 are listed from a range; selecting keys privately takes δ > 0
   1 | SELECT wide, COUNT(*) FROM survey GROUP BY wide
     |                                            ^^^^
help: group by something coarser: wide // 10
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- too many combinations
SELECT n1, n2, COUNT(*) FROM survey GROUP BY n1, n2

PrivacyError private-keys at 1:46+6
error: the keys have 81,018,001 combinations, and at most 1,000,000 are listed; selecting keys privately takes δ > 0
   1 | SELECT n1, n2, COUNT(*) FROM survey GROUP BY n1, n2
     |                                              ^^^^^^
help: group by fewer keys, or by coarser ones: x // 100, DATE_TRUNC('month', x)
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- float
SELECT height, COUNT(*) FROM people GROUP BY height

PrivacyError private-keys at 1:46+6
error: height is DOUBLE, whose values aren't listed; selecting keys privately takes δ > 0
   1 | SELECT height, COUNT(*) FROM people GROUP BY height
     |                                              ^^^^^^
help: group by something coarser: CAST(FLOOR(height) AS INTEGER)
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- timestamp
SELECT seen, COUNT(*) FROM people GROUP BY seen

PrivacyError private-keys at 1:44+4
error: seen is TIMESTAMP, whose values aren't listed; selecting keys privately takes δ > 0
   1 | SELECT seen, COUNT(*) FROM people GROUP BY seen
     |                                            ^^^^
help: group by something coarser: DATE_TRUNC('day', seen)
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- computed from too many values
SELECT n1 * n2, COUNT(*) FROM survey GROUP BY 1

PrivacyError private-keys at 1:8+7
error: n1 * n2 can have more than 10,000 values; selecting keys privately takes δ > 0
   1 | SELECT n1 * n2, COUNT(*) FROM survey GROUP BY 1
     |        ^^^^^^^
help: group by its parts, or by something coarser
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- the third key of three
SELECT region,
       member,
       code || name,
       COUNT(*)
FROM people
GROUP BY ALL

PrivacyError private-keys at 3:8+12
error: the values of name are not public; selecting keys privately takes δ > 0
   3 |        code || name,
     |        ^^^^^^^^^^^^
help: list them in the policy: [tables.people.columns] name = { values = ["…", "…"] } or { references = "table.column" }
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- a list
SELECT tags, COUNT(*) FROM people GROUP BY tags

SQLError key-type at 1:44+4
error: VARCHAR[] can't be a group key
   1 | SELECT tags, COUNT(*) FROM people GROUP BY tags
     |                                            ^^^^
help: group by a number, text, a date or a timestamp: cast or extract a part of it
----
-- a cube of seven keys
SELECT COUNT(*) FROM people
GROUP BY CUBE (region, member, age, code, born, seen, id)

SQLError too-large at 2:16+41
error: GROUP BY makes more than 64 grouping sets
   2 | GROUP BY CUBE (region, member, age, code, born, seen, id)
     |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: list the ones you need: GROUP BY GROUPING SETS ((a, b), (a), ())
----
-- a product of grouping sets
SELECT COUNT(*) FROM people GROUP BY CUBE (region, member, age, code), CUBE (born, seen, id)

SQLError too-large at 1:78+14
error: GROUP BY makes more than 64 grouping sets
   1 | SELECT COUNT(*) FROM people GROUP BY CUBE (region, member, age, code), CUBE (born, seen, id)
     |                                                                              ^^^^^^^^^^^^^^
help: list the ones you need: GROUP BY GROUPING SETS ((a, b), (a), ())
----
-- a rollup in a rollup
SELECT region, COUNT(*) FROM people GROUP BY ROLLUP (region, CUBE (member))

SQLError syntax at 1:67+1
error: the SQL can't be parsed: expected ) at (
   1 | SELECT region, COUNT(*) FROM people GROUP BY ROLLUP (region, CUBE (member))
     |                                                                   ^
help: check it near the mark
----
-- with rollup
SELECT region, COUNT(*) FROM people GROUP BY region WITH ROLLUP

SQLError group-by at 1:46+6
error: WITH ROLLUP and WITH CUBE are not DuckDB's way to write it
   1 | SELECT region, COUNT(*) FROM people GROUP BY region WITH ROLLUP
     |                                              ^^^^^^
help: write GROUP BY ROLLUP (a, b) or GROUP BY CUBE (a, b)
----
-- a rollup over two names of one column
SELECT a, b, COUNT(*) FROM (SELECT region AS a, region AS b FROM people) GROUP BY ROLLUP (a, b)

SQLError group-by at 1:94+1
error: a and b are the same column, and grouping sets tell their keys apart
   1 | SELECT a, b, COUNT(*) FROM (SELECT region AS a, region AS b FROM people) GROUP BY ROLLUP (a, b)
     |                                                                                              ^
help: group by one of them
----
-- grouping of a column that is no key
SELECT region, GROUPING(member), COUNT(*) FROM people GROUP BY ROLLUP (region)

SQLError group-by at 1:25+6
error: GROUPING takes keys of GROUP BY, and member is none
   1 | SELECT region, GROUPING(member), COUNT(*) FROM people GROUP BY ROLLUP (region)
     |                         ^^^^^^
help: write one of them: region
----
-- grouping without group by
SELECT GROUPING(region), COUNT(*) FROM people

SQLError group-by at 1:8+16
error: GROUPING needs a GROUP BY
   1 | SELECT GROUPING(region), COUNT(*) FROM people
     |        ^^^^^^^^^^^^^^^^
help: group by ROLLUP (a, b), and ask for GROUPING(a, b)
----
-- grouping in where
SELECT region, COUNT(*) FROM people WHERE GROUPING(region) = 0 GROUP BY region

SQLError misplaced-aggregate at 1:43+16
error: GROUPING can't stand inside a row's expression
   1 | SELECT region, COUNT(*) FROM people WHERE GROUPING(region) = 0 GROUP BY region
     |                                           ^^^^^^^^^^^^^^^^
help: aggregate in the SELECT list
----
-- grouping as a key
SELECT region, COUNT(*) FROM people GROUP BY region, GROUPING(region)

SQLError misplaced-aggregate at 1:54+16
error: GROUPING can't stand inside a row's expression
   1 | SELECT region, COUNT(*) FROM people GROUP BY region, GROUPING(region)
     |                                                      ^^^^^^^^^^^^^^^^
help: aggregate in the SELECT list
----
-- an aggregate as a rolled-up key
SELECT region, COUNT(*) FROM people GROUP BY ROLLUP (region, COUNT(*))

SQLError group-by at 1:62+8
error: GROUP BY can't hold an aggregate
   1 | SELECT region, COUNT(*) FROM people GROUP BY ROLLUP (region, COUNT(*))
     |                                                              ^^^^^^^^
help: group by columns, or by the result in a query around this one
----
-- an ordinal of a rollup that is out of range
SELECT region, COUNT(*) FROM people GROUP BY ROLLUP (1, 3)

SQLError ordinal at 1:57+1
error: GROUP BY 3 is out of range
   1 | SELECT region, COUNT(*) FROM people GROUP BY ROLLUP (1, 3)
     |                                                         ^
help: write 1 to 2, or the name of a column
----
-- a column that no set holds
SELECT region, age, COUNT(*) FROM people GROUP BY ROLLUP (region, member)

SQLError not-grouped at 1:16+3
error: age must be in GROUP BY or inside an aggregate
   1 | SELECT region, age, COUNT(*) FROM people GROUP BY ROLLUP (region, member)
     |                ^^^
help: add age to GROUP BY, or aggregate it: COUNT(age), AVG(age), …
----
-- a private column in a set
SELECT COUNT(*) FROM people GROUP BY ROLLUP (region, secret)

PrivacyError private-column at 1:54+6
error: the policy says that secret may not be a group key
   1 | SELECT COUNT(*) FROM people GROUP BY ROLLUP (region, secret)
     |                                                      ^^^^^^
help: group by another column, or aggregate without it
----
-- entropy of values that are not public
SELECT ENTROPY(name) FROM people

PrivacyError private-keys at 1:16+4
error: the values of name are not public, and ENTROPY needs a noisy count of each of them
   1 | SELECT ENTROPY(name) FROM people
     |                ^^^^
help: list them in the policy: [tables.people.columns] name = { values = ["…", "…"] } or { references = "table.column" }
----
-- entropy of too many values
SELECT ENTROPY(height) FROM people

PrivacyError private-keys at 1:16+6
error: height is DOUBLE, whose values aren't listed, and ENTROPY needs a noisy count of each of them
   1 | SELECT ENTROPY(height) FROM people
     |                ^^^^^^
help: take something coarser: CAST(FLOOR(height) AS INTEGER)
----
-- entropy beside grouping sets
SELECT region, ENTROPY(member) FROM people GROUP BY ROLLUP (region)

PrivacyError unsupported-aggregate at 1:16+15
error: ENTROPY can't stand beside several grouping sets
   1 | SELECT region, ENTROPY(member) FROM people GROUP BY ROLLUP (region)
     |                ^^^^^^^^^^^^^^^
help: ask for ENTROPY in a query of its own for each set: GROUP BY its keys
----
-- a format of too many moments
SELECT strftime(seen, '%Y-%m-%d %H:%M:%S') AS second, COUNT(*) FROM people GROUP BY second

PrivacyError private-keys at 1:8+35
error: STRFTIME(seen, '%Y-%m-%d %H:%M:%S') can have more than 10,000 values; selecting keys privately takes δ > 0
   1 | SELECT strftime(seen, '%Y-%m-%d %H:%M:%S') AS second, COUNT(*) FROM people GROUP BY second
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: group by something coarser: DATE_TRUNC('day', seen)
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- a step of a number without a range
SELECT CAST(ROUND(debt) AS INTEGER) AS debts, COUNT(*) FROM people GROUP BY debts

PrivacyError private-keys at 1:8+28
error: the values of debt are not public; selecting keys privately takes δ > 0
   1 | SELECT CAST(ROUND(debt) AS INTEGER) AS debts, COUNT(*) FROM people GROUP BY debts
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = …, max = … }; then the values of CAST(ROUND(debt) AS INT) are public
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
----
-- a step of one unit's number without a range
SELECT age // 10 * 10 AS step, COUNT(*) FROM visits GROUP BY step

PrivacyError private-keys at 1:8+14
error: the values of age are not public; selecting keys privately takes δ > 0
   1 | SELECT age // 10 * 10 AS step, COUNT(*) FROM visits GROUP BY step
     |        ^^^^^^^^^^^^^^
help: give age a min and a max in the policy: [tables.visits.columns] age = { min = …, max = … }; then the values of age // 10 * 10 are public
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
