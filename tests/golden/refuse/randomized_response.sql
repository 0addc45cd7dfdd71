-- a table whose unit is a column
SELECT RANDOMIZED_RESPONSE(member) FROM people

PrivacyError randomized-response at 1:8+27
error: RANDOMIZED_RESPONSE shows row by row, and in people a unit is not a row
   1 | SELECT RANDOMIZED_RESPONSE(member) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: it needs a table with unit = "row"; here, aggregate: SELECT x, COUNT(*) … GROUP BY x
----
-- a linked table
SELECT RANDOMIZED_RESPONSE(order_id) FROM items

PrivacyError randomized-response at 1:8+29
error: RANDOMIZED_RESPONSE shows row by row, and in items a unit is not a row
   1 | SELECT RANDOMIZED_RESPONSE(order_id) FROM items
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: it needs a table with unit = "row"; here, aggregate: SELECT x, COUNT(*) … GROUP BY x
----
-- WHERE below it
SELECT RANDOMIZED_RESPONSE(yes) AS x
FROM poll
WHERE age > 30

PrivacyError randomized-response at 3:7+8
error: WHERE below RANDOMIZED_RESPONSE: whether a row is there would depend on what it holds
   3 | WHERE age > 30
     |       ^^^^^^^^
help: filter by randomised values in a query around it: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t) WHERE …
----
-- WHERE in a subquery below it
SELECT RANDOMIZED_RESPONSE(yes) FROM (SELECT yes FROM poll WHERE age > 30)

PrivacyError randomized-response at 1:8+24
error: RANDOMIZED_RESPONSE needs the rows of poll as they are: all of them, and each once
   1 | SELECT RANDOMIZED_RESPONSE(yes) FROM (SELECT yes FROM poll WHERE age > 30)
     |        ^^^^^^^^^^^^^^^^^^^^^^^^
help: filter, join, group and combine results instead: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t)
----
-- a join below it
SELECT RANDOMIZED_RESPONSE(yes) FROM poll JOIN codes ON codes.code = poll.choice

PrivacyError randomized-response at 1:48+5
error: a join below RANDOMIZED_RESPONSE: how often a row is there would depend on what it holds
   1 | SELECT RANDOMIZED_RESPONSE(yes) FROM poll JOIN codes ON codes.code = poll.choice
     |                                                ^^^^^
help: join randomised values in a query around it: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t) AS r JOIN …
----
-- LIMIT below it
SELECT RANDOMIZED_RESPONSE(yes) FROM (SELECT yes FROM poll LIMIT 10)

PrivacyError limit-private at 1:66+2
error: LIMIT over private rows picks some people's rows and not others'
   1 | SELECT RANDOMIZED_RESPONSE(yes) FROM (SELECT yes FROM poll LIMIT 10)
     |                                                                  ^^
help: aggregate first; LIMIT works on the result
----
-- a union below it
SELECT RANDOMIZED_RESPONSE(yes) FROM (SELECT yes FROM poll UNION ALL SELECT yes FROM poll)

PrivacyError randomized-response at 1:8+24
error: RANDOMIZED_RESPONSE needs the rows of poll as they are: all of them, and each once
   1 | SELECT RANDOMIZED_RESPONSE(yes) FROM (SELECT yes FROM poll UNION ALL SELECT yes FROM poll)
     |        ^^^^^^^^^^^^^^^^^^^^^^^^
help: filter, join, group and combine results instead: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t)
----
-- a plain private column beside it
SELECT RANDOMIZED_RESPONSE(yes), age FROM poll

PrivacyError randomized-response at 1:34+3
error: age can't leave as it is beside RANDOMIZED_RESPONSE: it tells whose row it is
   1 | SELECT RANDOMIZED_RESPONSE(yes), age FROM poll
     |                                  ^^^
help: randomise it, too: RANDOMIZED_RESPONSE(age); or leave it out
----
-- a plain private column inside of an expression
SELECT RANDOMIZED_RESPONSE(yes) AND age > 30 FROM poll

PrivacyError randomized-response at 1:37+3
error: age can't leave as it is beside RANDOMIZED_RESPONSE: it tells whose row it is
   1 | SELECT RANDOMIZED_RESPONSE(yes) AND age > 30 FROM poll
     |                                     ^^^
help: randomise it, too: RANDOMIZED_RESPONSE(age); or leave it out
----
-- a private column in ORDER BY
SELECT RANDOMIZED_RESPONSE(yes) FROM poll ORDER BY age

PrivacyError randomized-response at 1:52+3
error: age can't leave as it is beside RANDOMIZED_RESPONSE: it tells whose row it is
   1 | SELECT RANDOMIZED_RESPONSE(yes) FROM poll ORDER BY age
     |                                                    ^^^
help: randomise it, too: RANDOMIZED_RESPONSE(age); or leave it out
----
-- the unit beside it
SELECT RANDOMIZED_RESPONSE(yes), PRIVACY_UNIT() FROM poll

PrivacyError privacy-unit at 1:34+14
error: PRIVACY_UNIT() stands for the owner of a private row, and can only be counted
   1 | SELECT RANDOMIZED_RESPONSE(yes), PRIVACY_UNIT() FROM poll
     |                                  ^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT()) over a private table
----
-- an expression
SELECT RANDOMIZED_RESPONSE(age > 30) FROM poll

PrivacyError randomized-response at 1:28+8
error: RANDOMIZED_RESPONSE takes a column of the table as it stands, not an expression
   1 | SELECT RANDOMIZED_RESPONSE(age > 30) FROM poll
     |                            ^^^^^^^^
help: randomise the column, and compute with the result: NOT RANDOMIZED_RESPONSE(x)
----
-- an expression by another name
SELECT RANDOMIZED_RESPONSE(old) FROM (SELECT age > 30 AS old FROM poll)

PrivacyError randomized-response at 1:28+3
error: RANDOMIZED_RESPONSE takes a column of the table as it stands, not an expression
   1 | SELECT RANDOMIZED_RESPONSE(old) FROM (SELECT age > 30 AS old FROM poll)
     |                            ^^^
help: randomise the column, and compute with the result: NOT RANDOMIZED_RESPONSE(x)
----
-- twice
SELECT RANDOMIZED_RESPONSE(RANDOMIZED_RESPONSE(yes)) FROM poll

PrivacyError randomized-response at 1:28+24
error: RANDOMIZED_RESPONSE takes a column of the table as it stands, not an expression
   1 | SELECT RANDOMIZED_RESPONSE(RANDOMIZED_RESPONSE(yes)) FROM poll
     |                            ^^^^^^^^^^^^^^^^^^^^^^^^
help: randomise the column, and compute with the result: NOT RANDOMIZED_RESPONSE(x)
----
-- a constant
SELECT RANDOMIZED_RESPONSE(TRUE) FROM poll

PrivacyError randomized-response at 1:8+19
error: RANDOMIZED_RESPONSE takes a column of the table as it stands, not an expression
   1 | SELECT RANDOMIZED_RESPONSE(TRUE) FROM poll
     |        ^^^^^^^^^^^^^^^^^^^
help: randomise the column, and compute with the result: NOT RANDOMIZED_RESPONSE(x)
----
-- no column
SELECT RANDOMIZED_RESPONSE() FROM poll

SQLError randomized-response at 1:8+21
error: RANDOMIZED_RESPONSE takes one column
   1 | SELECT RANDOMIZED_RESPONSE() FROM poll
     |        ^^^^^^^^^^^^^^^^^^^^^
help: write RANDOMIZED_RESPONSE(x) for each column
----
-- a column without values
SELECT RANDOMIZED_RESPONSE(age) FROM poll

PrivacyError randomized-response at 1:28+3
error: nothing says which values age can have, and a value is randomised within a public list
   1 | SELECT RANDOMIZED_RESPONSE(age) FROM poll
     |                            ^^^
help: list them in the policy: [tables.poll.columns] age = { values = ["a", "b"] }
      or randomise a BOOLEAN column
----
-- a column with one value
SELECT RANDOMIZED_RESPONSE(single) FROM poll

PrivacyError randomized-response at 1:28+6
error: single has 1 listed value, and can't be randomised
   1 | SELECT RANDOMIZED_RESPONSE(single) FROM poll
     |                            ^^^^^^
help: list 2 to 100,000 values in the policy
----
-- a column that may not be a key
SELECT RANDOMIZED_RESPONSE(hidden) FROM poll

PrivacyError randomized-response at 1:28+6
error: the policy says that hidden may not be a group key, and randomised values could be one
   1 | SELECT RANDOMIZED_RESPONSE(hidden) FROM poll
     |                            ^^^^^^
help: randomise another column, or aggregate without it
----
-- in WHERE
SELECT COUNT(*) FROM poll WHERE RANDOMIZED_RESPONSE(yes)

PrivacyError randomized-response at 1:33+24
error: RANDOMIZED_RESPONSE can only stand in the SELECT list
   1 | SELECT COUNT(*) FROM poll WHERE RANDOMIZED_RESPONSE(yes)
     |                                 ^^^^^^^^^^^^^^^^^^^^^^^^
help: randomise in a subquery, and look at its results: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t) WHERE …
----
-- in GROUP BY
SELECT COUNT(*) FROM poll GROUP BY RANDOMIZED_RESPONSE(yes)

PrivacyError randomized-response at 1:36+24
error: RANDOMIZED_RESPONSE can only stand in the SELECT list
   1 | SELECT COUNT(*) FROM poll GROUP BY RANDOMIZED_RESPONSE(yes)
     |                                    ^^^^^^^^^^^^^^^^^^^^^^^^
help: randomise in a subquery, and look at its results: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t) WHERE …
----
-- in an aggregate
SELECT AVG(CAST(RANDOMIZED_RESPONSE(yes) AS INTEGER)) FROM poll

PrivacyError randomized-response at 1:8+46
error: aggregates, windows and subqueries can't stand beside RANDOMIZED_RESPONSE
   1 | SELECT AVG(CAST(RANDOMIZED_RESPONSE(yes) AS INTEGER)) FROM poll
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: put them into a query around it: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t)
----
-- an estimate around it at once
SELECT RR_COUNT(RANDOMIZED_RESPONSE(yes)) FROM poll

PrivacyError randomized-response at 1:8+34
error: aggregates, windows and subqueries can't stand beside RANDOMIZED_RESPONSE
   1 | SELECT RR_COUNT(RANDOMIZED_RESPONSE(yes)) FROM poll
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: put them into a query around it: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t)
----
-- an aggregate beside it
SELECT RANDOMIZED_RESPONSE(yes), COUNT(*) FROM poll GROUP BY ALL

PrivacyError randomized-response at 1:8+24
error: RANDOMIZED_RESPONSE can only stand in the SELECT list
   1 | SELECT RANDOMIZED_RESPONSE(yes), COUNT(*) FROM poll GROUP BY ALL
     |        ^^^^^^^^^^^^^^^^^^^^^^^^
help: randomise in a subquery, and look at its results: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t) WHERE …
----
-- GROUP BY beside it
SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll GROUP BY choice

PrivacyError randomized-response at 1:57+6
error: GROUP BY can't stand beside RANDOMIZED_RESPONSE
   1 | SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll GROUP BY choice
     |                                                         ^^^^^^
help: put it into a query around it: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t)
----
-- DISTINCT beside it
SELECT DISTINCT RANDOMIZED_RESPONSE(yes) FROM poll

PrivacyError randomized-response at 1:17+24
error: DISTINCT can't stand beside RANDOMIZED_RESPONSE
   1 | SELECT DISTINCT RANDOMIZED_RESPONSE(yes) FROM poll
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^
help: put it into a query around it: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t)
----
-- a window beside it
SELECT RANDOMIZED_RESPONSE(yes), ROW_NUMBER() OVER () FROM poll

PrivacyError randomized-response at 1:34+12
error: aggregates, windows and subqueries can't stand beside RANDOMIZED_RESPONSE
   1 | SELECT RANDOMIZED_RESPONSE(yes), ROW_NUMBER() OVER () FROM poll
     |                                  ^^^^^^^^^^^^
help: put them into a query around it: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t)
----
-- a subquery beside it
SELECT RANDOMIZED_RESPONSE(yes), (SELECT MAX(label) FROM codes) FROM poll

PrivacyError randomized-response at 1:42+21
error: aggregates, windows and subqueries can't stand beside RANDOMIZED_RESPONSE
   1 | SELECT RANDOMIZED_RESPONSE(yes), (SELECT MAX(label) FROM codes) FROM poll
     |                                          ^^^^^^^^^^^^^^^^^^^^^
help: put them into a query around it: SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t)
----
-- of a public table
SELECT RANDOMIZED_RESPONSE(code) FROM codes

PrivacyError randomized-response at 1:8+25
error: RANDOMIZED_RESPONSE randomises a column of a private table, and there is none here
   1 | SELECT RANDOMIZED_RESPONSE(code) FROM codes
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave it out: results and public tables may be shown as they are
----
-- of results
SELECT RANDOMIZED_RESPONSE(n > 3) FROM (SELECT COUNT(*) AS n FROM poll)

PrivacyError randomized-response at 1:8+26
error: RANDOMIZED_RESPONSE randomises a column of a private table, and there is none here
   1 | SELECT RANDOMIZED_RESPONSE(n > 3) FROM (SELECT COUNT(*) AS n FROM poll)
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave it out: results and public tables may be shown as they are
----
-- aggregates in the same query
SELECT COUNT(*) AS n, (SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll)) AS m
FROM poll

PrivacyError randomized-response at 1:56+24
error: a query with RANDOMIZED_RESPONSE has no other aggregates of private rows
   1 | SELECT COUNT(*) AS n, (SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll)) AS m
     |                                                        ^^^^^^^^^^^^^^^^^^^^^^^^
help: ask for them in a query of their own; both are charged to the same account
----
-- randomised rows in a later filter
SELECT COUNT(*) FROM poll WHERE choice IN (SELECT RANDOMIZED_RESPONSE(choice) FROM poll)

PrivacyError randomized-response at 1:51+27
error: a query with RANDOMIZED_RESPONSE has no other aggregates of private rows
   1 | SELECT COUNT(*) FROM poll WHERE choice IN (SELECT RANDOMIZED_RESPONSE(choice) FROM poll)
     |                                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: ask for them in a query of their own; both are charged to the same account
----
-- an estimate of a private column
SELECT RR_COUNT(yes) FROM poll

PrivacyError randomized-response at 1:8+13
error: RR_COUNT estimates from a column that RANDOMIZED_RESPONSE made, and this is none as it stands
   1 | SELECT RR_COUNT(yes) FROM poll
     |        ^^^^^^^^^^^^^
help: write SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(b) AS x FROM t)
----
-- an estimate of a public column
SELECT RR_FREQUENCY(code, 'x1') FROM codes

PrivacyError randomized-response at 1:8+24
error: RR_FREQUENCY estimates from a column that RANDOMIZED_RESPONSE made, and this is none as it stands
   1 | SELECT RR_FREQUENCY(code, 'x1') FROM codes
     |        ^^^^^^^^^^^^^^^^^^^^^^^^
help: write SELECT RR_FREQUENCY(x) FROM (SELECT RANDOMIZED_RESPONSE(b) AS x FROM t)
----
-- an estimate of a result
SELECT RR_FREQUENCY(k) FROM (SELECT yes AS k, COUNT(*) AS n FROM poll GROUP BY yes)

PrivacyError randomized-response at 1:8+15
error: RR_FREQUENCY estimates from a column that RANDOMIZED_RESPONSE made, and this is none as it stands
   1 | SELECT RR_FREQUENCY(k) FROM (SELECT yes AS k, COUNT(*) AS n FROM poll GROUP BY yes)
     |        ^^^^^^^^^^^^^^^
help: write SELECT RR_FREQUENCY(x) FROM (SELECT RANDOMIZED_RESPONSE(b) AS x FROM t)
----
-- an estimate of an expression
SELECT RR_COUNT(NOT x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll)

PrivacyError randomized-response at 1:8+15
error: RR_COUNT estimates from a column that RANDOMIZED_RESPONSE made, and this is none as it stands
   1 | SELECT RR_COUNT(NOT x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll)
     |        ^^^^^^^^^^^^^^^
help: write SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(b) AS x FROM t)
----
-- an estimate of an expression by another name
SELECT RR_COUNT(y) FROM (SELECT NOT RANDOMIZED_RESPONSE(yes) AS y FROM poll)

PrivacyError randomized-response at 1:8+11
error: RR_COUNT estimates from a column that RANDOMIZED_RESPONSE made, and this is none as it stands
   1 | SELECT RR_COUNT(y) FROM (SELECT NOT RANDOMIZED_RESPONSE(yes) AS y FROM poll)
     |        ^^^^^^^^^^^
help: write SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(b) AS x FROM t)
----
-- an estimate of grouped values
SELECT RR_COUNT(x) FROM (SELECT x FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll) GROUP BY x)

PrivacyError randomized-response at 1:8+11
error: RR_COUNT estimates from a column that RANDOMIZED_RESPONSE made, and this is none as it stands
   1 | SELECT RR_COUNT(x) FROM (SELECT x FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll) GROUP BY x)
     |        ^^^^^^^^^^^
help: write SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(b) AS x FROM t)
----
-- an estimate of the first rows
SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll ORDER BY x LIMIT 10)

PrivacyError randomized-response at 1:8+11
error: RR_COUNT estimates from a column that RANDOMIZED_RESPONSE made, and this is none as it stands
   1 | SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll ORDER BY x LIMIT 10)
     |        ^^^^^^^^^^^
help: write SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(b) AS x FROM t)
----
-- an estimate by the same column
SELECT x, RR_COUNT(x, 'red') FROM (SELECT RANDOMIZED_RESPONSE(choice) AS x FROM poll) GROUP BY x

PrivacyError randomized-response at 1:96+1
error: RR_COUNT(x, 'red') among rows that were chosen by the same randomised column is no estimate
   1 | SELECT x, RR_COUNT(x, 'red') FROM (SELECT RANDOMIZED_RESPONSE(choice) AS x FROM poll) GROUP BY x
     |                                                                                                ^
help: leave the column out of WHERE, ON and GROUP BY, and name the value: RR_COUNT(x, 'a')
----
-- an estimate among rows that were chosen by the same column
SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll) WHERE NOT x

PrivacyError randomized-response at 1:84+1
error: RR_COUNT(x) among rows that were chosen by the same randomised column is no estimate
   1 | SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll) WHERE NOT x
     |                                                                                    ^
help: leave the column out of WHERE, ON and GROUP BY, and name the value: RR_COUNT(x, 'a')
----
-- an estimate among rows that were chosen below
SELECT RR_COUNT(y)
FROM (SELECT x AS y FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll) WHERE x)

PrivacyError randomized-response at 2:81+1
error: RR_COUNT(y) among rows that were chosen by the same randomised column is no estimate
   2 | FROM (SELECT x AS y FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll) WHERE x)
     |                                                                                 ^
help: leave the column out of WHERE, ON and GROUP BY, and name the value: RR_COUNT(x, 'a')
----
-- an estimate without its value
SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(choice) AS x FROM poll)

SQLError randomized-response at 1:8+11
error: RR_COUNT of choice must say which value it counts
   1 | SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(choice) AS x FROM poll)
     |        ^^^^^^^^^^^
help: write RR_COUNT(x, 'blue')
----
-- an estimate of a value that isn't listed
SELECT RR_COUNT(x, 'pink') FROM (SELECT RANDOMIZED_RESPONSE(choice) AS x FROM poll)

SQLError randomized-response at 1:20+6
error: 'pink' is none of the values of choice
   1 | SELECT RR_COUNT(x, 'pink') FROM (SELECT RANDOMIZED_RESPONSE(choice) AS x FROM poll)
     |                    ^^^^^^
help: its values are 'red', 'green', 'blue'
----
-- an estimate of a number that isn't listed
SELECT RR_COUNT(x, 4) FROM (SELECT RANDOMIZED_RESPONSE(grade) AS x FROM poll)

SQLError randomized-response at 1:20+1
error: 4 is none of the values of grade
   1 | SELECT RR_COUNT(x, 4) FROM (SELECT RANDOMIZED_RESPONSE(grade) AS x FROM poll)
     |                    ^
help: its values are 3, 1, 2
----
-- an estimate of NULL
SELECT RR_COUNT(x, NULL) FROM (SELECT RANDOMIZED_RESPONSE(grade) AS x FROM poll)

SQLError randomized-response at 1:8+17
error: RR_COUNT counts one value, which is a constant
   1 | SELECT RR_COUNT(x, NULL) FROM (SELECT RANDOMIZED_RESPONSE(grade) AS x FROM poll)
     |        ^^^^^^^^^^^^^^^^^
help: write RR_COUNT(x, 'a'), once for each value
----
-- an estimate of each row's own value
SELECT RR_COUNT(x, x) FROM (SELECT RANDOMIZED_RESPONSE(choice) AS x FROM poll)

SQLError randomized-response at 1:20+1
error: RR_COUNT counts one value, which is a constant
   1 | SELECT RR_COUNT(x, x) FROM (SELECT RANDOMIZED_RESPONSE(choice) AS x FROM poll)
     |                    ^
help: write RR_COUNT(x, 'a'), once for each value
----
-- an estimate with FILTER
SELECT RR_COUNT(x) FILTER (WHERE x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll)

SQLError randomized-response at 1:8+11
error: RR_COUNT takes no FILTER, DISTINCT or OVER
   1 | SELECT RR_COUNT(x) FILTER (WHERE x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll)
     |        ^^^^^^^^^^^
help: filter by other randomised columns with WHERE, and group by them with GROUP BY
----
-- an estimate in a window
SELECT RR_COUNT(x) OVER () FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll)

SQLError randomized-response at 1:8+11
error: RR_COUNT takes no FILTER, DISTINCT or OVER
   1 | SELECT RR_COUNT(x) OVER () FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll)
     |        ^^^^^^^^^^^
help: filter by other randomised columns with WHERE, and group by them with GROUP BY
----
-- an estimate of three arguments
SELECT RR_COUNT(x, 'red', 'blue') FROM (SELECT RANDOMIZED_RESPONSE(choice) AS x FROM poll)

SQLError randomized-response at 1:8+26
error: RR_COUNT takes a column, and a value
   1 | SELECT RR_COUNT(x, 'red', 'blue') FROM (SELECT RANDOMIZED_RESPONSE(choice) AS x FROM poll)
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write RR_COUNT(x) or RR_COUNT(x, 'a')
----
-- an interval of randomised values
SELECT RANDOMIZED_RESPONSE(yes) AS x, DP_INTERVAL_LOW(x) FROM poll

SQLError interval at 1:39+18
error: DP_INTERVAL_LOW takes the alias of an aggregate of private rows as it stands, in the same SELECT: nothing else has noise of its own
   1 | SELECT RANDOMIZED_RESPONSE(yes) AS x, DP_INTERVAL_LOW(x) FROM poll
     |                                       ^^^^^^^^^^^^^^^^^^
help: write SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) FROM …
