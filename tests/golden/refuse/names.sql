-- unknown table
SELECT COUNT(*) FROM peple

SQLError unknown-table at 1:22+5
error: there is no table peple
   1 | SELECT COUNT(*) FROM peple
     |                      ^^^^^
help: did you mean people?
----
-- unknown table, nothing like it
SELECT COUNT(*) FROM zzzzz

SQLError unknown-table at 1:22+5
error: there is no table zzzzz
   1 | SELECT COUNT(*) FROM zzzzz
     |                      ^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- unknown table in a CTE
WITH c AS (
  SELECT COUNT(*) AS n FROM peoples
)
SELECT n FROM c

SQLError unknown-table at 2:29+7
error: there is no table peoples
   2 |   SELECT COUNT(*) AS n FROM peoples
     |                             ^^^^^^^
help: did you mean people?
----
-- unknown column
SELECT AVG(agee) FROM people

SQLError unknown-column at 1:12+4
error: there is no column agee
   1 | SELECT AVG(agee) FROM people
     |            ^^^^
help: did you mean age?
----
-- unknown column on a later line
SELECT region,
       SUM(incme)
FROM people
GROUP BY region

SQLError unknown-column at 2:12+5
error: there is no column incme
   2 |        SUM(incme)
     |            ^^^^^
help: did you mean income?
----
-- unknown column, nothing like it
SELECT COUNT(qqqqqq) FROM people

SQLError unknown-column at 1:14+6
error: there is no column qqqqqq
   1 | SELECT COUNT(qqqqqq) FROM people
     |              ^^^^^^
help: columns here: id, name, age, income, height, region, code, born, seen, member, debt, secret, tags
----
-- unknown column in WHERE
SELECT COUNT(*) FROM people WHERE regio = 'north'

SQLError unknown-column at 1:35+5
error: there is no column regio
   1 | SELECT COUNT(*) FROM people WHERE regio = 'north'
     |                                   ^^^^^
help: did you mean region?
----
-- unknown column in GROUP BY
SELECT COUNT(*) FROM people GROUP BY regin

SQLError unknown-column at 1:38+5
error: there is no column regin
   1 | SELECT COUNT(*) FROM people GROUP BY regin
     |                                      ^^^^^
help: did you mean region?
----
-- unknown source
SELECT COUNT(p.age) FROM people

SQLError unknown-column at 1:14+5
error: there is no source p here
   1 | SELECT COUNT(p.age) FROM people
     |              ^^^^^
help: sources here: people
----
-- column of another table
SELECT label, COUNT(*) FROM people GROUP BY label

SQLError unknown-column at 1:8+5
error: there is no column label
   1 | SELECT label, COUNT(*) FROM people GROUP BY label
     |        ^^^^^
help: columns here: id, name, age, income, height, region, code, born, seen, member, debt, secret, tags
----
-- ambiguous column
WITH a AS (SELECT COUNT(*) AS n FROM people), b AS (SELECT COUNT(*) AS n FROM people)
SELECT n FROM a, b

SQLError ambiguous-column at 2:8+1
error: n is ambiguous: it is in a and b
   2 | SELECT n FROM a, b
     |        ^
help: write a.n
----
-- a column out of a CTE that it doesn't give
WITH c AS (SELECT region FROM people) SELECT AVG(age) FROM c

SQLError unknown-column at 1:50+3
error: there is no column age
   1 | WITH c AS (SELECT region FROM people) SELECT AVG(age) FROM c
     |                                                  ^^^
help: columns here: region
----
-- two sources of one name
SELECT COUNT(*) FROM (SELECT COUNT(*) FROM people) AS a, (SELECT 1) AS a

SQLError alias at 1:72+1
error: two sources are called a
   1 | SELECT COUNT(*) FROM (SELECT COUNT(*) FROM people) AS a, (SELECT 1) AS a
     |                                                                        ^
help: rename one of them: … AS a2
----
-- unknown function
SELECT SUM(sqroot(age)) FROM people

SQLError unknown-function at 1:12+11
error: unknown function SQROOT
   1 | SELECT SUM(sqroot(age)) FROM people
     |            ^^^^^^^^^^^
help: did you mean SQRT?
----
-- unknown function, nothing like it
SELECT SUM(frobnicate(age)) FROM people

SQLError unknown-function at 1:12+15
error: unknown function FROBNICATE
   1 | SELECT SUM(frobnicate(age)) FROM people
     |            ^^^^^^^^^^^^^^^
help: `dpsql functions` lists what can be used
----
-- unknown function over results
SELECT frobnicate(COUNT(*)) FROM people

SQLError unknown-function at 1:8+20
error: unknown function FROBNICATE
   1 | SELECT frobnicate(COUNT(*)) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^
help: `dpsql functions` lists what can be used
----
-- unknown schema
SELECT COUNT(*) FROM main.people

SQLError unknown-table at 1:22+11
error: table functions, files and other schemas can't be read
   1 | SELECT COUNT(*) FROM main.people
     |                      ^^^^^^^^^^^
help: leave the schema out: people
----
-- information schema
SELECT COUNT(*) FROM information_schema.tables

SQLError unknown-table at 1:22+25
error: table functions, files and other schemas can't be read
   1 | SELECT COUNT(*) FROM information_schema.tables
     |                      ^^^^^^^^^^^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- catalog function
SELECT COUNT(*) FROM duckdb_tables()

SQLError unknown-table at 1:22+15
error: table functions, files and other schemas can't be read
   1 | SELECT COUNT(*) FROM duckdb_tables()
     |                      ^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- the unit of row units
SELECT COUNT(DISTINCT rowid) FROM survey

SQLError unknown-column at 1:23+5
error: there is no column rowid
   1 | SELECT COUNT(DISTINCT rowid) FROM survey
     |                       ^^^^^
help: columns here: answer, wide, n1, n2
----
-- a row id
SELECT SUM(rowid) FROM people

SQLError unknown-column at 1:12+5
error: there is no column rowid
   1 | SELECT SUM(rowid) FROM people
     |            ^^^^^
help: columns here: id, name, age, income, height, region, code, born, seen, member, debt, secret, tags
----
-- GROUP BY number out of range
SELECT region, COUNT(*) FROM people GROUP BY 3

SQLError ordinal at 1:46+1
error: GROUP BY 3 is out of range
   1 | SELECT region, COUNT(*) FROM people GROUP BY 3
     |                                              ^
help: write 1 to 2, or the name of a column
----
-- ORDER BY number out of range
SELECT region, COUNT(*) FROM people GROUP BY 1 ORDER BY 9

SQLError ordinal at 1:57+1
error: ORDER BY 9 is out of range
   1 | SELECT region, COUNT(*) FROM people GROUP BY 1 ORDER BY 9
     |                                                         ^
help: write 1 to 2, or the name of a column
----
-- column that isn't grouped
SELECT region, age, COUNT(*) FROM people GROUP BY region

SQLError not-grouped at 1:16+3
error: age must be in GROUP BY or inside an aggregate
   1 | SELECT region, age, COUNT(*) FROM people GROUP BY region
     |                ^^^
help: add age to GROUP BY, or aggregate it: COUNT(age), AVG(age), …
----
-- column beside an aggregate
SELECT age, COUNT(*) FROM people

SQLError not-grouped at 1:8+3
error: age must be in GROUP BY or inside an aggregate
   1 | SELECT age, COUNT(*) FROM people
     |        ^^^
help: add age to GROUP BY, or aggregate it: COUNT(age), AVG(age), …
----
-- star beside an aggregate
SELECT *, COUNT(*) FROM people

SQLError not-grouped at 1:8+1
error: * stands for id, too, which must be in GROUP BY or inside an aggregate
   1 | SELECT *, COUNT(*) FROM people
     |        ^
help: write the columns of GROUP BY instead of *
----
-- column in HAVING that isn't grouped
SELECT region, COUNT(*) FROM people GROUP BY region HAVING age > 3

SQLError not-grouped at 1:60+3
error: HAVING looks at groups, and age is neither in GROUP BY nor inside an aggregate
   1 | SELECT region, COUNT(*) FROM people GROUP BY region HAVING age > 3
     |                                                            ^^^
help: put a condition on rows into WHERE, or aggregate: AVG(age)
----
-- column in ORDER BY that isn't grouped
SELECT region, COUNT(*) FROM people GROUP BY region ORDER BY age

SQLError not-grouped at 1:62+3
error: age must be in GROUP BY or inside an aggregate
   1 | SELECT region, COUNT(*) FROM people GROUP BY region ORDER BY age
     |                                                              ^^^
help: add age to GROUP BY, or aggregate it: COUNT(age), AVG(age), …
----
-- aggregate in WHERE
SELECT COUNT(*) FROM people WHERE SUM(age) > 3

SQLError misplaced-aggregate at 1:35+8
error: WHERE looks at single rows, so it can't hold an aggregate
   1 | SELECT COUNT(*) FROM people WHERE SUM(age) > 3
     |                                   ^^^^^^^^
help: put a condition on groups into HAVING: HAVING SUM(age) > 3
----
-- aggregate in GROUP BY
SELECT COUNT(*) FROM people GROUP BY COUNT(*)

SQLError group-by at 1:38+8
error: GROUP BY can't hold an aggregate
   1 | SELECT COUNT(*) FROM people GROUP BY COUNT(*)
     |                                      ^^^^^^^^
help: group by columns, or by the result in a query around this one
----
-- aggregate of an aggregate
SELECT SUM(COUNT(*)) FROM people

SQLError misplaced-aggregate at 1:12+8
error: an aggregate can't hold another one
   1 | SELECT SUM(COUNT(*)) FROM people
     |            ^^^^^^^^
help: aggregate in two steps: SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM … GROUP BY …)
----
-- sides of a UNION that differ
SELECT COUNT(*) FROM people UNION ALL SELECT COUNT(*), SUM(age) FROM people

SQLError column-count at 1:8+68
error: the two sides have 1 and 2 columns
   1 | SELECT COUNT(*) FROM people UNION ALL SELECT COUNT(*), SUM(age) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: select the same number of columns on both sides
----
-- aggregate among the conditions of WHERE
SELECT COUNT(*) FROM people WHERE region = 'north' AND AVG(age) > 3

SQLError misplaced-aggregate at 1:56+8
error: WHERE looks at single rows, so it can't hold an aggregate
   1 | SELECT COUNT(*) FROM people WHERE region = 'north' AND AVG(age) > 3
     |                                                        ^^^^^^^^
help: put a condition on groups into HAVING: HAVING AVG(age) > 3
----
-- aggregate in FILTER
SELECT COUNT(*) FILTER (WHERE SUM(age) > 3) FROM people

SQLError misplaced-aggregate at 1:31+8
error: FILTER looks at single rows, so it can't hold an aggregate
   1 | SELECT COUNT(*) FILTER (WHERE SUM(age) > 3) FROM people
     |                               ^^^^^^^^
help: filter by columns
----
-- column of USING
WITH a AS (SELECT COUNT(*) AS n FROM people) SELECT n FROM a JOIN codes USING (n)

SQLError unknown-column at 1:80+1
error: there is no column n
   1 | WITH a AS (SELECT COUNT(*) AS n FROM people) SELECT n FROM a JOIN codes USING (n)
     |                                                                                ^
help: columns here: code, label
----
-- more aliases than columns
SELECT COUNT(*) FROM (SELECT age FROM people) AS a(x, y)

SQLError column-count at 1:50+7
error: 2 column aliases for 1 column
   1 | SELECT COUNT(*) FROM (SELECT age FROM people) AS a(x, y)
     |                                                  ^^^^^^^
help: give a at most 1
----
-- too many arguments
SELECT COUNT(age, id) FROM people

SQLError arity at 1:8+14
error: COUNT takes one argument
   1 | SELECT COUNT(age, id) FROM people
     |        ^^^^^^^^^^^^^^
help: write COUNT(x) for each of them
----
-- columns that no name matches
SELECT SUM(COLUMNS('^zz')) FROM people

SQLError unknown-column at 1:12+14
error: no column is called like '^zz'
   1 | SELECT SUM(COLUMNS('^zz')) FROM people
     |            ^^^^^^^^^^^^^^
help: columns here: id, name, age, income, height, region, code, born, seen, member, debt, secret, tags
----
-- columns by names, one of which is not there
SELECT SUM(COLUMNS(['age', 'agee'])) FROM people

SQLError unknown-column at 1:12+24
error: no column is called agee
   1 | SELECT SUM(COLUMNS(['age', 'agee'])) FROM people
     |            ^^^^^^^^^^^^^^^^^^^^^^^^
help: columns here: id, name, age, income, height, region, code, born, seen, member, debt, secret, tags
----
-- two different columns in one expression
SELECT SUM(COLUMNS('age')) + SUM(COLUMNS('income')) FROM people

SQLError unsupported at 1:8+44
error: this use of COLUMNS('age') is not supported
   1 | SELECT SUM(COLUMNS('age')) + SUM(COLUMNS('income')) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write the columns one by one
----
-- columns in where
SELECT label FROM codes WHERE COLUMNS('.*') > 'a'

SQLError unsupported-expression at 1:31+13
error: COLUMNS(…) stands in the SELECT list only
   1 | SELECT label FROM codes WHERE COLUMNS('.*') > 'a'
     |                               ^^^^^^^^^^^^^
help: name each column here
----
-- columns that has no range
SELECT SUM(COLUMNS(['age', 'debt'])) FROM people

PrivacyError needs-range at 1:28+6
error: SUM needs a range for people.debt
   1 | SELECT SUM(COLUMNS(['age', 'debt'])) FROM people
     |                            ^^^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: SUM(CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- star with a condition
SELECT * LIKE 'l%' FROM codes

SQLError unsupported at 1:8+11
error: * can't stand here
   1 | SELECT * LIKE 'l%' FROM codes
     |        ^^^^^^^^^^^
help: name one column, or choose several: COLUMNS('^a')
----
-- columns after a semi join
SELECT codes.label, r.n FROM codes SEMI JOIN (SELECT 'x1' AS code, COUNT(*) AS n FROM people) r USING (code)

SQLError unknown-column at 1:21+3
error: there is no source r here
   1 | SELECT codes.label, r.n FROM codes SEMI JOIN (SELECT 'x1' AS code, COUNT(*) AS n FROM people) r USING (code)
     |                     ^^^
help: sources here: codes
----
-- more names than columns in a cte
WITH a(x, y) AS (SELECT COUNT(*) FROM people) SELECT * FROM a

SQLError column-count at 1:6+7
error: 2 column aliases for 1 column
   1 | WITH a(x, y) AS (SELECT COUNT(*) FROM people) SELECT * FROM a
     |      ^^^^^^^
help: give a at most 1
----
-- a sibling without LATERAL
SELECT l.n FROM codes c, (SELECT c.label AS n) l

SQLError unknown-column at 1:34+7
error: there is no source c here
   1 | SELECT l.n FROM codes c, (SELECT c.label AS n) l
     |                                  ^^^^^^^
help: sources here: none
----
-- a series of rows' values
SELECT COUNT(*) FROM people, range(people.age)

SQLError literal-needed at 1:30+17
error: a series goes from one constant to another, in constant steps
   1 | SELECT COUNT(*) FROM people, range(people.age)
     |                              ^^^^^^^^^^^^^^^^^
help: write range(0, 10, 2), or range(DATE '2024-01-01', DATE '2024-02-01', INTERVAL 1 DAY)
----
-- an endless series
SELECT COUNT(*) FROM range(10000000000)

SQLError too-large at 1:22+18
error: a series has at most 100,000 rows
   1 | SELECT COUNT(*) FROM range(10000000000)
     |                      ^^^^^^^^^^^^^^^^^^
help: take a larger step, or a shorter stretch
----
-- a series backwards
SELECT COUNT(*) FROM range(10, 0, -1)

SQLError literal-needed at 1:22+16
error: a series goes from one constant to another, in constant steps
   1 | SELECT COUNT(*) FROM range(10, 0, -1)
     |                      ^^^^^^^^^^^^^^^^
help: write range(0, 10, 2), or range(DATE '2024-01-01', DATE '2024-02-01', INTERVAL 1 DAY)
----
-- a series of moments without a step
SELECT COUNT(*) FROM range(DATE '2024-01-01', DATE '2024-02-01')

SQLError literal-needed at 1:22+43
error: a series goes from one constant to another, in constant steps
   1 | SELECT COUNT(*) FROM range(DATE '2024-01-01', DATE '2024-02-01')
     |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write range(0, 10, 2), or range(DATE '2024-01-01', DATE '2024-02-01', INTERVAL 1 DAY)
----
-- unnest of private rows
SELECT UNNEST(range(age)) FROM people

SQLError unsupported-expression at 1:8+18
error: lists, structs and maps can't be built or opened in a query
   1 | SELECT UNNEST(range(age)) FROM people
     |        ^^^^^^^^^^^^^^^^^^
help: use columns that are numbers, texts, dates or booleans; `dpsql functions` lists what can be used
----
-- pairs of different lengths
SELECT COUNT(*) FROM people WHERE (region, age) IN (('north', 3, 4))

SQLError column-count at 1:54+13
error: 2 values are compared with something else
   1 | SELECT COUNT(*) FROM people WHERE (region, age) IN (('north', 3, 4))
     |                                                      ^^^^^^^^^^^^^
help: list 2 values in each pair of parentheses
----
-- joins in parentheses on the right of a left join
SELECT COUNT(*) FROM people p LEFT JOIN (orders o JOIN codes c ON TRUE) ON o.id = p.id

SQLError unsupported at 1:42+8
error: joins in parentheses can't be on the right of this join
   1 | SELECT COUNT(*) FROM people p LEFT JOIN (orders o JOIN codes c ON TRUE) ON o.id = p.id
     |                                          ^^^^^^^^
help: make them a derived table: … JOIN (SELECT … FROM a JOIN b ON …) AS q ON …
----
-- joins in parentheses that make rows for what nothing matches
SELECT COUNT(*) FROM people p CROSS JOIN (codes c RIGHT JOIN codes d ON c.code = d.code)

SQLError unsupported at 1:43+7
error: joins in parentheses can't be on the right of this join
   1 | SELECT COUNT(*) FROM people p CROSS JOIN (codes c RIGHT JOIN codes d ON c.code = d.code)
     |                                           ^^^^^^^
help: make them a derived table: … JOIN (SELECT … FROM a JOIN b ON …) AS q ON …
----
-- a right join after joins in parentheses
SELECT COUNT(*) FROM people p JOIN (codes c JOIN codes d ON c.code = d.code) ON p.code = c.code RIGHT JOIN codes e ON e.code = c.code

SQLError unsupported at 1:108+7
error: a RIGHT JOIN can't come after joins in parentheses
   1 | SELECT COUNT(*) FROM people p JOIN (codes c JOIN codes d ON c.code = d.code) ON p.code = c.code RIGHT JOIN codes e ON e.code = c.code
     |                                                                                                            ^^^^^^^
help: make those a derived table: … JOIN (SELECT … FROM a JOIN b ON …) AS q ON …
----
-- joins in parentheses with a name
SELECT COUNT(*) FROM (people p JOIN codes c ON p.code = c.code) q

SQLError unsupported at 1:65+1
error: joins in parentheses can't have a name of their own
   1 | SELECT COUNT(*) FROM (people p JOIN codes c ON p.code = c.code) q
     |                                                                 ^
help: make them a derived table: (SELECT … FROM a JOIN b ON …) AS q
