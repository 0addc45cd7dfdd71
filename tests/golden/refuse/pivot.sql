-- pivot without values
PIVOT people ON region USING COUNT(*)

SQLError pivot at 1:17+6
error: without a list of values, the columns of a PIVOT would depend on the data
   1 | PIVOT people ON region USING COUNT(*)
     |                 ^^^^^^
help: list them: region IN ('a', 'b')
----
-- pivot on two columns, one without values
PIVOT people ON region IN ('north'), member USING COUNT(*) GROUP BY age

SQLError pivot at 1:38+6
error: without a list of values, the columns of a PIVOT would depend on the data
   1 | PIVOT people ON region IN ('north'), member USING COUNT(*) GROUP BY age
     |                                      ^^^^^^
help: list them: member IN ('a', 'b')
----
-- pivot in from without values
SELECT * FROM people PIVOT (COUNT(*) FOR region IN (ANY) GROUP BY age)

SQLError pivot at 1:42+6
error: without a list of values, the columns of a PIVOT would depend on the data
   1 | SELECT * FROM people PIVOT (COUNT(*) FOR region IN (ANY) GROUP BY age)
     |                                          ^^^^^^
help: list them: region IN ('a', 'b')
----
-- pivot with values from a query
PIVOT people ON code IN (SELECT code FROM codes) USING COUNT(*) GROUP BY region

SQLError pivot at 1:17+32
error: without a list of values, the columns of a PIVOT would depend on the data
   1 | PIVOT people ON code IN (SELECT code FROM codes) USING COUNT(*) GROUP BY region
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: list them: code IN ('a', 'b')
----
-- pivot with values from a type
PIVOT people ON code IN codes USING COUNT(*) GROUP BY region

SQLError pivot at 1:17+13
error: without a list of values, the columns of a PIVOT would depend on the data
   1 | PIVOT people ON code IN codes USING COUNT(*) GROUP BY region
     |                 ^^^^^^^^^^^^^
help: list them: code IN ('a', 'b')
----
-- pivot without a column
PIVOT people USING COUNT(*) GROUP BY region

SQLError pivot at 1:7+37
error: PIVOT needs a column and its values
   1 | PIVOT people USING COUNT(*) GROUP BY region
     |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write PIVOT t ON x IN ('a', 'b') USING SUM(y)
----
-- pivot on an expression
PIVOT people ON UPPER(region) IN ('NORTH') USING COUNT(*) GROUP BY member

SQLError pivot at 1:17+13
error: PIVOT takes a column here, not UPPER(region)
   1 | PIVOT people ON UPPER(region) IN ('NORTH') USING COUNT(*) GROUP BY member
     |                 ^^^^^^^^^^^^^
help: compute it in a subquery: PIVOT (SELECT UPPER(region) AS v, … FROM t) ON v IN (…)
----
-- pivot on a computed value
PIVOT people ON region IN (UPPER('north')) USING COUNT(*) GROUP BY member

SQLError pivot at 1:28+14
error: the values of a PIVOT are constants, not UPPER('north')
   1 | PIVOT people ON region IN (UPPER('north')) USING COUNT(*) GROUP BY member
     |                            ^^^^^^^^^^^^^^
help: write texts and numbers: IN ('a', 'b'), IN (1, 2)
----
-- pivot by all other columns, one of which is private
PIVOT people ON region IN ('north') USING COUNT(*)

PrivacyError returns-rows at 1:7+6
error: the query returns rows of a private table, people
   1 | PIVOT people ON region IN ('north') USING COUNT(*)
     |       ^^^^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- pivot of too many columns
PIVOT people ON age IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29),
id IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29) USING COUNT(*) GROUP BY region

SQLError pivot at 1:17+118
error: PIVOT makes more than 500 columns
   1 | PIVOT people ON age IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29),
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: list fewer values
----
-- pivot with two aggregates in one
PIVOT people ON region IN ('north') USING COALESCE(SUM(age), COUNT(*)) GROUP BY member

SQLError pivot at 1:43+28
error: PIVOT takes one plain aggregate in each expression, not COALESCE(SUM(age), COUNT(*))
   1 | PIVOT people ON region IN ('north') USING COALESCE(SUM(age), COUNT(*)) GROUP BY member
     |                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write each aggregate by itself: USING SUM(y), COUNT(*)
----
-- pivot without an aggregate
PIVOT people ON region IN ('north') USING UPPER(region) GROUP BY member

SQLError pivot at 1:43+13
error: PIVOT takes one plain aggregate in each expression, not UPPER(region)
   1 | PIVOT people ON region IN ('north') USING UPPER(region) GROUP BY member
     |                                           ^^^^^^^^^^^^^
help: write each aggregate by itself: USING SUM(y), COUNT(*)
----
-- pivot with a filter
FROM people PIVOT (COUNT(*) FILTER (WHERE age > 3) FOR region IN ('north') GROUP BY member)

SQLError pivot at 1:20+31
error: PIVOT takes one plain aggregate in each expression, not COUNT(*) FILTER(WHERE age > 3)
   1 | FROM people PIVOT (COUNT(*) FILTER (WHERE age > 3) FOR region IN ('north') GROUP BY member)
     |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write each aggregate by itself: USING SUM(y), COUNT(*)
----
-- pivot of a column without a range
PIVOT people ON region IN ('north') USING SUM(debt) GROUP BY member

PrivacyError needs-range at 1:47+4
error: SUM needs a range for people.debt
   1 | PIVOT people ON region IN ('north') USING SUM(debt) GROUP BY member
     |                                               ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: SUM(CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- pivot of an unknown column
PIVOT people ON regio IN ('north') USING COUNT(*) GROUP BY member

SQLError unknown-column at 1:17+5
error: there is no column regio
   1 | PIVOT people ON regio IN ('north') USING COUNT(*) GROUP BY member
     |                 ^^^^^
help: did you mean region?
----
-- pivot of pairs of different lengths
FROM people PIVOT (COUNT(*) FOR (region, member) IN (('north', true), ('south')) GROUP BY age)

SQLError pivot at 1:72+7
error: ('south') is not one value for each column
   1 | FROM people PIVOT (COUNT(*) FOR (region, member) IN (('north', true), ('south')) GROUP BY age)
     |                                                                        ^^^^^^^
help: write (x, y) IN (('a', 1), ('b', 2))
----
-- a second pivot
FROM people PIVOT (COUNT(*) FOR region IN ('north') GROUP BY member) PIVOT (SUM(north) FOR member IN (true))

SQLError unsupported at 1:77+21
error: one PIVOT can't follow another
   1 | FROM people PIVOT (COUNT(*) FOR region IN ('north') GROUP BY member) PIVOT (SUM(north) FOR member IN (true))
     |                                                                             ^^^^^^^^^^^^^^^^^^^^^
help: put the first one into a subquery
----
-- the same value twice
PIVOT people ON region IN ('north', 'north') USING COUNT(*) GROUP BY member

SQLError pivot at 1:37+7
error: two values of the PIVOT make a column north
   1 | PIVOT people ON region IN ('north', 'north') USING COUNT(*) GROUP BY member
     |                                     ^^^^^^^
help: leave it out, or name it: IN ('a', 'b' AS c)
----
-- pivot that is ordered
PIVOT people ON region IN ('north') USING COUNT(*) GROUP BY member ORDER BY member

SQLError syntax at 1:68+8
error: the SQL can't be parsed: unexpected ORDER BY
   1 | PIVOT people ON region IN ('north') USING COUNT(*) GROUP BY member ORDER BY member
     |                                                                    ^^^^^^^^
help: check it near the mark
----
-- unpivot of private rows
UNPIVOT people ON age, id

PrivacyError returns-rows at 1:9+6
error: the query returns rows of a private table, people
   1 | UNPIVOT people ON age, id
     |         ^^^^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- unpivot of a column that is not there
UNPIVOT (SELECT COUNT(*) AS n FROM people) ON n, m

SQLError pivot at 1:50+1
error: UNPIVOT takes columns of its source, and m is none
   1 | UNPIVOT (SELECT COUNT(*) AS n FROM people) ON n, m
     |                                                  ^
help: name columns: n
----
-- unpivot of all columns
UNPIVOT (SELECT COUNT(*) AS n FROM people) ON COLUMNS(*)

SQLError pivot at 1:47+10
error: UNPIVOT takes columns of its source, and COLUMNS(*) is none
   1 | UNPIVOT (SELECT COUNT(*) AS n FROM people) ON COLUMNS(*)
     |                                               ^^^^^^^^^^
help: name columns: n
----
-- unpivot into two values
FROM (SELECT 1 AS a, 2 AS b) UNPIVOT ((v, w) FOR n IN ((a, b)))

SQLError pivot at 1:40+22
error: this UNPIVOT is not supported
   1 | FROM (SELECT 1 AS a, 2 AS b) UNPIVOT ((v, w) FOR n IN ((a, b)))
     |                                        ^^^^^^^^^^^^^^^^^^^^^^
help: write UNPIVOT (value FOR name IN (a, b))
----
-- pivot after parentheses around a table
SELECT * FROM (people) PIVOT (COUNT(*) FOR region IN ('north', 'south'))

SQLError unsupported at 1:16+6
error: only a SELECT can stand here
   1 | SELECT * FROM (people) PIVOT (COUNT(*) FOR region IN ('north', 'south'))
     |                ^^^^^^
help: write SELECT … FROM …
