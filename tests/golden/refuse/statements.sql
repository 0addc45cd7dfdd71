-- a comment
-- nothing else

SQLError empty
error: there is no query in the text
help: write a query: "SELECT COUNT(*) FROM t"
----
-- two statements
SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people

SQLError one-statement at 1:30+6
error: a second statement, where one is allowed
   1 | SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people
     |                              ^^^^^^
help: send one query at a time
----
-- injection
SELECT COUNT(*) FROM people; DROP TABLE people

SQLError one-statement at 1:30+4
error: a second statement, where one is allowed
   1 | SELECT COUNT(*) FROM people; DROP TABLE people
     |                              ^^^^
help: send one query at a time
----
-- create
CREATE TABLE x AS SELECT * FROM people

SQLError not-a-query at 1:1+6
error: only queries are answered, not CREATE
   1 | CREATE TABLE x AS SELECT * FROM people
     | ^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- create macro
CREATE MACRO f(x) AS x + 1

SQLError not-a-query at 1:1+6
error: only queries are answered, not CREATE
   1 | CREATE MACRO f(x) AS x + 1
     | ^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- drop
DROP TABLE people

SQLError not-a-query at 1:1+4
error: only queries are answered, not DROP
   1 | DROP TABLE people
     | ^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- insert
INSERT INTO people SELECT * FROM people

SQLError not-a-query at 1:1+6
error: only queries are answered, not INSERT
   1 | INSERT INTO people SELECT * FROM people
     | ^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- update
UPDATE people SET age = 1

SQLError not-a-query at 1:1+6
error: only queries are answered, not UPDATE
   1 | UPDATE people SET age = 1
     | ^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- delete
DELETE FROM people

SQLError not-a-query at 1:1+6
error: only queries are answered, not DELETE
   1 | DELETE FROM people
     | ^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- alter
ALTER TABLE people ADD COLUMN x INT

SQLError not-a-query at 1:1+5
error: only queries are answered, not ALTER
   1 | ALTER TABLE people ADD COLUMN x INT
     | ^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- pragma
PRAGMA table_info('people')

SQLError not-a-query at 1:1+6
error: only queries are answered, not PRAGMA
   1 | PRAGMA table_info('people')
     | ^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- set
SET memory_limit = '1GB'

SQLError not-a-query at 1:1+3
error: only queries are answered, not SET
   1 | SET memory_limit = '1GB'
     | ^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- set variable
SET VARIABLE x = (SELECT COUNT(*) FROM people)

SQLError not-a-query at 1:1+3
error: only queries are answered, not SET
   1 | SET VARIABLE x = (SELECT COUNT(*) FROM people)
     | ^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- reset
RESET memory_limit

SQLError not-a-query at 1:1+5
error: only queries are answered, not RESET
   1 | RESET memory_limit
     | ^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- explain
EXPLAIN SELECT COUNT(*) FROM people

SQLError not-a-query at 1:1+7
error: only queries are answered, not EXPLAIN
   1 | EXPLAIN SELECT COUNT(*) FROM people
     | ^^^^^^^
help: `dpsql explain` and session.explain() say what a query would do and cost, and spend nothing
----
-- explain analyze
EXPLAIN ANALYZE SELECT COUNT(*) FROM people

SQLError not-a-query at 1:1+7
error: only queries are answered, not EXPLAIN
   1 | EXPLAIN ANALYZE SELECT COUNT(*) FROM people
     | ^^^^^^^
help: `dpsql explain` and session.explain() say what a query would do and cost, and spend nothing
----
-- summarize
SUMMARIZE people

SQLError not-a-query at 1:1+9
error: only queries are answered, not SUMMARIZE
   1 | SUMMARIZE people
     | ^^^^^^^^^
help: DESCRIBE t says what may be asked of a table's columns, for nothing
----
-- summarize in FROM
SELECT * FROM (SUMMARIZE people)

SQLError unsupported at 1:26+6
error: only a SELECT can stand here
   1 | SELECT * FROM (SUMMARIZE people)
     |                          ^^^^^^
help: write SELECT … FROM …
----
-- copy out
COPY people TO 'x.csv'

SQLError not-a-query at 1:1+4
error: only queries are answered, not COPY
   1 | COPY people TO 'x.csv'
     | ^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- copy in
COPY people FROM 'x.csv'

SQLError not-a-query at 1:1+4
error: only queries are answered, not COPY
   1 | COPY people FROM 'x.csv'
     | ^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- attach
ATTACH 'x.duckdb' AS x

SQLError not-a-query at 1:1+6
error: only queries are answered, not ATTACH
   1 | ATTACH 'x.duckdb' AS x
     | ^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- detach
DETACH x

SQLError not-a-query at 1:1+6
error: only queries are answered, not DETACH
   1 | DETACH x
     | ^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- use
USE x

SQLError not-a-query at 1:1+3
error: only queries are answered, not USE
   1 | USE x
     | ^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- install
INSTALL httpfs

SQLError not-a-query at 1:1+7
error: only queries are answered, not INSTALL
   1 | INSTALL httpfs
     | ^^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- load
LOAD httpfs

SQLError not-a-query at 1:1+4
error: only queries are answered, not LOAD
   1 | LOAD httpfs
     | ^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- call
CALL duckdb_tables()

SQLError not-a-query at 1:1+4
error: only queries are answered, not CALL
   1 | CALL duckdb_tables()
     | ^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- checkpoint
CHECKPOINT

SQLError not-a-query at 1:1+10
error: only queries are answered, not CHECKPOINT
   1 | CHECKPOINT
     | ^^^^^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- vacuum
VACUUM

SQLError not-a-query at 1:1+6
error: only queries are answered, not VACUUM
   1 | VACUUM
     | ^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- prepare
PREPARE q AS SELECT COUNT(*) FROM people

SQLError not-a-query at 1:1+7
error: only queries are answered, not PREPARE
   1 | PREPARE q AS SELECT COUNT(*) FROM people
     | ^^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- execute
EXECUTE q

SQLError not-a-query at 1:1+7
error: only queries are answered, not EXECUTE
   1 | EXECUTE q
     | ^^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- begin
BEGIN TRANSACTION

SQLError not-a-query at 1:1+5
error: only queries are answered, not BEGIN
   1 | BEGIN TRANSACTION
     | ^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- export
EXPORT DATABASE 'x'

SQLError not-a-query at 1:1+6
error: only queries are answered, not EXPORT
   1 | EXPORT DATABASE 'x'
     | ^^^^^^
help: write a SELECT with an aggregate: SELECT COUNT(*) FROM …
----
-- values statement with rows
VALUES ((SELECT age FROM people))

SQLError not-a-query at 1:1+6
error: only queries are answered, not VALUES
   1 | VALUES ((SELECT age FROM people))
     | ^^^^^^
help: write SELECT * FROM (VALUES (1, 2))
----
-- table statement
TABLE people

PrivacyError returns-rows at 1:7+6
error: the query returns rows of a private table, people
   1 | TABLE people
     |       ^^^^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- into
SELECT COUNT(*) INTO x FROM people

SQLError unsupported at 1:22+1
error: SELECT INTO writes a table, and queries only read
   1 | SELECT COUNT(*) INTO x FROM people
     |                      ^
help: leave it out
----
-- for update
SELECT COUNT(*) FROM people FOR UPDATE

SQLError unsupported at 1:8+20
error: FOR UPDATE locks rows, and queries only read
   1 | SELECT COUNT(*) FROM people FOR UPDATE
     |        ^^^^^^^^^^^^^^^^^^^^
help: leave it out
----
-- recursive CTE
WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 5)
SELECT SUM(i) FROM r

SQLError recursive at 1:16+62
error: WITH RECURSIVE is not supported
   1 | WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 5)
     |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave RECURSIVE out, and write each step as a CTE of its own
----
-- recursive CTE over rows
WITH RECURSIVE r AS (SELECT age FROM people UNION ALL SELECT age + 1 FROM r)
SELECT COUNT(*) FROM r

SQLError recursive at 1:16+61
error: WITH RECURSIVE is not supported
   1 | WITH RECURSIVE r AS (SELECT age FROM people UNION ALL SELECT age + 1 FROM r)
     |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave RECURSIVE out, and write each step as a CTE of its own
----
-- a file as a table
SELECT COUNT(*) FROM 'people.parquet'

SQLError unknown-table at 1:22+16
error: there is no table people.parquet
   1 | SELECT COUNT(*) FROM 'people.parquet'
     |                      ^^^^^^^^^^^^^^^^
help: did you mean people?
----
-- a path as a table
SELECT COUNT(*) FROM "/etc/passwd"

SQLError unknown-table at 1:22+13
error: there is no table /etc/passwd
   1 | SELECT COUNT(*) FROM "/etc/passwd"
     |                      ^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- read_csv
SELECT COUNT(*) FROM read_csv('/etc/passwd')

SQLError unknown-table at 1:22+23
error: table functions, files and other schemas can't be read
   1 | SELECT COUNT(*) FROM read_csv('/etc/passwd')
     |                      ^^^^^^^^^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- read_parquet
SELECT COUNT(*) FROM read_parquet('people.parquet')

SQLError unknown-table at 1:22+30
error: table functions, files and other schemas can't be read
   1 | SELECT COUNT(*) FROM read_parquet('people.parquet')
     |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- read_text
SELECT * FROM read_text('/etc/passwd')

SQLError unknown-table at 1:15+24
error: table functions, files and other schemas can't be read
   1 | SELECT * FROM read_text('/etc/passwd')
     |               ^^^^^^^^^^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- glob
SELECT * FROM glob('*')

SQLError unknown-table at 1:15+9
error: table functions, files and other schemas can't be read
   1 | SELECT * FROM glob('*')
     |               ^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- parquet_metadata
SELECT * FROM parquet_metadata('people.parquet')

SQLError unknown-table at 1:15+34
error: table functions, files and other schemas can't be read
   1 | SELECT * FROM parquet_metadata('people.parquet')
     |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- json_execute_serialized_sql
SELECT * FROM json_execute_serialized_sql('{}')

SQLError unknown-table at 1:15+33
error: table functions, files and other schemas can't be read
   1 | SELECT * FROM json_execute_serialized_sql('{}')
     |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- pragma function
SELECT * FROM pragma_table_info('people')

SQLError unknown-table at 1:15+27
error: table functions, files and other schemas can't be read
   1 | SELECT * FROM pragma_table_info('people')
     |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- duckdb_settings
SELECT * FROM duckdb_settings()

SQLError unknown-table at 1:15+17
error: table functions, files and other schemas can't be read
   1 | SELECT * FROM duckdb_settings()
     |               ^^^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- range in FROM
SELECT COUNT(*) FROM range(1000000000)

SQLError too-large at 1:22+17
error: a series has at most 100,000 rows
   1 | SELECT COUNT(*) FROM range(1000000000)
     |                      ^^^^^^^^^^^^^^^^^
help: take a larger step, or a shorter stretch
----
-- unnest in FROM
SELECT COUNT(*) FROM unnest([1, 2, 3])

SQLError unknown-table at 1:30+7
error: only tables of the policy and subqueries can stand in FROM
   1 | SELECT COUNT(*) FROM unnest([1, 2, 3])
     |                              ^^^^^^^
help: name a table of the policy (codes, items, orders, people, survey, visits) or write a subquery
----
-- question mark parameter
SELECT COUNT(*) FROM people WHERE age > ?

SQLError parameter at 1:41+1
error: no value was given for ?
   1 | SELECT COUNT(*) FROM people WHERE age > ?
     |                                         ^
help: give one: params=[…], or --param 1=… for each
----
-- numbered parameter
SELECT COUNT(*) FROM people WHERE age > $1

SQLError parameter at 1:41+2
error: no value was given for $1
   1 | SELECT COUNT(*) FROM people WHERE age > $1
     |                                         ^^
help: give one: params=[…], or --param 1=… for each
----
-- named parameter
SELECT COUNT(*) FROM people WHERE age > $x

SQLError parameter at 1:41+2
error: no value was given for $x
   1 | SELECT COUNT(*) FROM people WHERE age > $x
     |                                         ^^
help: give one: params={'x': …}, or --param x=…
----
-- parameter as a limit
SELECT region, COUNT(*) FROM people GROUP BY region LIMIT ?

SQLError parameter at 1:59+1
error: no value was given for ?
   1 | SELECT region, COUNT(*) FROM people GROUP BY region LIMIT ?
     |                                                           ^
help: give one: params=[…], or --param 1=… for each
----
-- syntax
SELECT COUNT(* FROM people

SQLError syntax at 1:16+4
error: the SQL can't be parsed: expected ) at FROM
   1 | SELECT COUNT(* FROM people
     |                ^^^^
help: check it near the mark
----
-- syntax on a later line
SELECT COUNT(*)
FROM people
WHERE age >

SQLError syntax at 3:11+1
error: the SQL can't be parsed: something is missing at >
   3 | WHERE age >
     |           ^
help: check it near the mark
----
-- a keyword for a column
SELECT union FROM people

SQLError syntax at 1:8+5
error: union is a keyword of SQL, and stands where a name should
   1 | SELECT union FROM people
     |        ^^^^^
help: quote it, if it is the name of a column or table: "union"
----
-- a keyword in an expression
SELECT COUNT(*) FROM people WHERE union > 3

SQLError syntax at 1:35+5
error: union is a keyword of SQL, and stands where a name should
   1 | SELECT COUNT(*) FROM people WHERE union > 3
     |                                   ^^^^^
help: quote it, if it is the name of a column or table: "union"
----
-- a keyword after a comma
SELECT COUNT(*), select FROM people

SQLError syntax at 1:18+6
error: select is a keyword of SQL, and stands where a name should
   1 | SELECT COUNT(*), select FROM people
     |                  ^^^^^^
help: quote it, if it is the name of a column or table: "select"
----
-- a keyword behind a CASE
SELECT SUM(CASE WHEN union > 1 THEN 1 ELSE NULL END) FROM people

SQLError syntax at 1:22+5
error: union is a keyword of SQL, and stands where a name should
   1 | SELECT SUM(CASE WHEN union > 1 THEN 1 ELSE NULL END) FROM people
     |                      ^^^^^
help: quote it, if it is the name of a column or table: "union"
----
-- a keyword for a table
SELECT COUNT(*) FROM union

SQLError syntax at 1:22+5
error: union is a keyword of SQL, and stands where a name should
   1 | SELECT COUNT(*) FROM union
     |                      ^^^^^
help: quote it, if it is the name of a column or table: "union"
----
-- a keyword in an aggregate
SELECT SUM(distinct) FROM people

SQLError syntax at 1:12+8
error: distinct is a keyword of SQL, and stands where a name should
   1 | SELECT SUM(distinct) FROM people
     |            ^^^^^^^^
help: quote it, if it is the name of a column or table: "distinct"
----
-- no keyword is at fault
SELECT SUM(CASE WHEN age > 1 THEN true ELSE NULL END, FROM people

SQLError syntax at 1:60+6
error: the SQL can't be parsed: too many arguments at people
   1 | SELECT SUM(CASE WHEN age > 1 THEN true ELSE NULL END, FROM people
     |                                                            ^^^^^^
help: check it near the mark
----
-- misspelt keyword
SELEC COUNT(*) FROM people

SQLError not-a-query at 1:1+5
error: only queries are answered, not SELEC
   1 | SELEC COUNT(*) FROM people
     | ^^^^^
help: did you mean SELECT?
----
-- open quote
SELECT COUNT(*) FROM people WHERE name = 'x

SQLError syntax at 1:42+1
error: a quote is never closed
   1 | SELECT COUNT(*) FROM people WHERE name = 'x
     |                                          ^
help: close it with '; a quote inside a text is written twice
----
-- open comment
SELECT COUNT(*) FROM people /* x

SQLError syntax at 1:29+2
error: a comment is never closed
   1 | SELECT COUNT(*) FROM people /* x
     |                             ^^
help: close it with */
----
-- deep nesting
SELECT COUNT(*) FROM people WHERE age > ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))

SQLError too-deep
error: the query is nested too deeply
help: use fewer levels of subqueries, CTEs, set operations and parentheses; or split it into several queries
----
-- deep expression
SELECT SUM(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(age))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))) FROM people

SQLError too-deep
error: the query is nested too deeply
help: use fewer levels of subqueries, CTEs, set operations and parentheses; or split it into several queries
----
-- colon parameter
SELECT COUNT(*) FROM people WHERE age > :x

SQLError parameter at 1:41+2
error: :x is no parameter
   1 | SELECT COUNT(*) FROM people WHERE age > :x
     |                                         ^^
help: write ?, $1 or $name
----
-- open name
SELECT COUNT(*) FROM "people

SQLError syntax at 1:22+1
error: a quote is never closed
   1 | SELECT COUNT(*) FROM "people
     |                      ^
help: close it with "; a quote inside a text is written twice
----
-- clause that ends early
SELECT COUNT(*) FROM people WHERE

SQLError syntax at 1:29+5
error: the SQL can't be parsed: something is missing at WHERE
   1 | SELECT COUNT(*) FROM people WHERE
     |                             ^^^^^
help: check it near the mark
----
-- explain among statements
SELECT COUNT(*) FROM people; EXPLAIN SELECT 1

SQLError one-statement at 1:30+7
error: a second statement, where one is allowed
   1 | SELECT COUNT(*) FROM people; EXPLAIN SELECT 1
     |                              ^^^^^^^
help: send one query at a time
