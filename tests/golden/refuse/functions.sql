-- random
SELECT SUM(random()) FROM people

SQLError volatile-function at 1:12+8
error: RANDOM() gives another value each time
   1 | SELECT SUM(random()) FROM people
     |            ^^^^^^^^
help: use columns and constants only
----
-- random in WHERE
SELECT COUNT(*) FROM people WHERE random() < 0.5

SQLError volatile-function at 1:35+8
error: RANDOM() gives another value each time
   1 | SELECT COUNT(*) FROM people WHERE random() < 0.5
     |                                   ^^^^^^^^
help: use columns and constants only
----
-- random over results
SELECT COUNT(*) + random() FROM people

SQLError volatile-function at 1:19+8
error: RANDOM() gives another value each time
   1 | SELECT COUNT(*) + random() FROM people
     |                   ^^^^^^^^
help: use columns and constants only
----
-- uuid
SELECT COUNT(uuid()) FROM people

SQLError volatile-function at 1:14+6
error: UUID() gives another value each time
   1 | SELECT COUNT(uuid()) FROM people
     |              ^^^^^^
help: use columns and constants only
----
-- nextval
SELECT SUM(nextval('s')) FROM people

SQLError volatile-function at 1:12+12
error: NEXTVAL() gives another value each time
   1 | SELECT SUM(nextval('s')) FROM people
     |            ^^^^^^^^^^^^
help: use columns and constants only
----
-- setseed
SELECT setseed(0.5), COUNT(*) FROM people

SQLError volatile-function at 1:8+12
error: SETSEED() gives another value each time
   1 | SELECT setseed(0.5), COUNT(*) FROM people
     |        ^^^^^^^^^^^^
help: use columns and constants only
----
-- error
SELECT COUNT(*) FROM people WHERE name = 'n77' AND error('x') IS NULL

SQLError unsafe-function at 1:52+10
error: ERROR() isn't allowed: it makes a query fail, or hides that it did, depending on single rows
   1 | SELECT COUNT(*) FROM people WHERE name = 'n77' AND error('x') IS NULL
     |                                                    ^^^^^^^^^^
help: CASE, COALESCE and TRY_CAST give NULL where there is no value
----
-- error over results
SELECT CASE WHEN COUNT(*) > 1 THEN error('x') END FROM people

SQLError unsafe-function at 1:36+10
error: ERROR() isn't allowed: it makes a query fail, or hides that it did, depending on single rows
   1 | SELECT CASE WHEN COUNT(*) > 1 THEN error('x') END FROM people
     |                                    ^^^^^^^^^^
help: CASE, COALESCE and TRY_CAST give NULL where there is no value
----
-- getenv
SELECT COUNT(*), getenv('HOME') FROM people

SQLError unsafe-function at 1:18+14
error: GETENV() isn't allowed: it reads the server, not the row
   1 | SELECT COUNT(*), getenv('HOME') FROM people
     |                  ^^^^^^^^^^^^^^
help: leave it out, or write its value as a constant
----
-- current_setting
SELECT COUNT(*), current_setting('memory_limit') FROM people

SQLError unsafe-function at 1:18+31
error: CURRENT_SETTING() isn't allowed: it reads the server, not the row
   1 | SELECT COUNT(*), current_setting('memory_limit') FROM people
     |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave it out, or write its value as a constant
----
-- read_text in an expression
SELECT COUNT(read_text('/etc/passwd')) FROM people

SQLError unsafe-function at 1:14+24
error: READ_TEXT() isn't allowed: it reads files or runs text as SQL
   1 | SELECT COUNT(read_text('/etc/passwd')) FROM people
     |              ^^^^^^^^^^^^^^^^^^^^^^^^
help: name a table of the policy in FROM
----
-- repeat
SELECT COUNT(repeat(name, 1000000000)) FROM people

SQLError unsafe-function at 1:14+24
error: REPEAT() isn't allowed: one row could make it arbitrarily long
   1 | SELECT COUNT(repeat(name, 1000000000)) FROM people
     |              ^^^^^^^^^^^^^^^^^^^^^^^^
help: CONCAT, SUBSTRING, LEFT, RIGHT and REPLACE make texts
----
-- lpad
SELECT COUNT(lpad(name, 1000000000, 'x')) FROM people

SQLError literal-needed at 1:25+10
error: the length must be a whole number from 0 to 1000, not 1000000000
   1 | SELECT COUNT(lpad(name, 1000000000, 'x')) FROM people
     |                         ^^^^^^^^^^
help: write it as a constant: 1
----
-- range
SELECT COUNT(range(1000000000)) FROM people

SQLError unsafe-function at 1:14+17
error: RANGE() isn't allowed: one row could make it arbitrarily slow
   1 | SELECT COUNT(range(1000000000)) FROM people
     |              ^^^^^^^^^^^^^^^^^
help: `dpsql functions` lists what can be used
----
-- generate_series
SELECT COUNT(generate_series(1, age * 1000000)) FROM people

SQLError unsafe-function at 1:14+33
error: GENERATE_SERIES() isn't allowed: one row could make it arbitrarily slow
   1 | SELECT COUNT(generate_series(1, age * 1000000)) FROM people
     |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: `dpsql functions` lists what can be used
----
-- factorial
SELECT SUM(factorial(age)) FROM people

SQLError unsafe-function at 1:12+14
error: FACTORIAL() isn't allowed: one row could make it arbitrarily slow
   1 | SELECT SUM(factorial(age)) FROM people
     |            ^^^^^^^^^^^^^^
help: `dpsql functions` lists what can be used
----
-- pattern from a row
SELECT COUNT(*) FROM people WHERE regexp_matches(name, region)

SQLError literal-needed at 1:56+6
error: a regular expression must be a string literal, not region
   1 | SELECT COUNT(*) FROM people WHERE regexp_matches(name, region)
     |                                                        ^^^^^^
help: write it as a constant: a pattern or a format that comes from a row could make a query fail on that row
----
-- bad pattern
SELECT COUNT(*) FROM people WHERE regexp_matches(name, '(')

SQLError bad-pattern at 1:56+3
error: '(' isn't a regular expression that DuckDB understands
   1 | SELECT COUNT(*) FROM people WHERE regexp_matches(name, '(')
     |                                                        ^^^
help: the syntax is RE2's: no back-references, no look-around
----
-- LIKE with a pattern from a row
SELECT COUNT(*) FROM people WHERE name LIKE region

SQLError literal-needed at 1:45+6
error: a LIKE pattern must be a string literal, not region
   1 | SELECT COUNT(*) FROM people WHERE name LIKE region
     |                                             ^^^^^^
help: write it as a constant: a pattern or a format that comes from a row could make a query fail on that row
----
-- format from a row
SELECT COUNT(strptime(name, region)) FROM people

SQLError literal-needed at 1:29+6
error: a date format must be a string literal, not region
   1 | SELECT COUNT(strptime(name, region)) FROM people
     |                             ^^^^^^
help: write it as a constant: a pattern or a format that comes from a row could make a query fail on that row
----
-- TRY
SELECT COUNT(TRY(CAST(name AS INT))) FROM people

SQLError unsafe-function at 1:14+22
error: TRY() isn't allowed: it makes a query fail, or hides that it did, depending on single rows
   1 | SELECT COUNT(TRY(CAST(name AS INT))) FROM people
     |              ^^^^^^^^^^^^^^^^^^^^^^
help: CASE, COALESCE and TRY_CAST give NULL where there is no value
----
-- list builder
SELECT COUNT([age, age]) FROM people

SQLError unsupported-expression at 1:15+8
error: lists, structs and maps can't be built or opened in a query
   1 | SELECT COUNT([age, age]) FROM people
     |               ^^^^^^^^
help: use columns that are numbers, texts, dates or booleans; `dpsql functions` lists what can be used
----
-- list element
SELECT COUNT(tags[1]) FROM people

SQLError unsupported-expression at 1:14+4
error: lists, structs and maps can't be built or opened in a query
   1 | SELECT COUNT(tags[1]) FROM people
     |              ^^^^
help: use columns that are numbers, texts, dates or booleans; `dpsql functions` lists what can be used
----
-- struct
SELECT COUNT({'a': age}) FROM people

SQLError unsupported-expression at 1:20+3
error: lists, structs and maps can't be built or opened in a query
   1 | SELECT COUNT({'a': age}) FROM people
     |                    ^^^
help: use columns that are numbers, texts, dates or booleans; `dpsql functions` lists what can be used
----
-- map
SELECT COUNT(MAP {'a': age}) FROM people

SQLError unsupported-expression at 1:19+8
error: lists, structs and maps can't be built or opened in a query
   1 | SELECT COUNT(MAP {'a': age}) FROM people
     |                   ^^^^^^^^
help: use columns that are numbers, texts, dates or booleans; `dpsql functions` lists what can be used
----
-- lambda
SELECT COUNT(list_transform(tags, x -> x || 'a')) FROM people

SQLError unknown-function at 1:14+35
error: unknown function LIST_TRANSFORM
   1 | SELECT COUNT(list_transform(tags, x -> x || 'a')) FROM people
     |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: `dpsql functions` lists what can be used
----
-- unnest
SELECT COUNT(unnest(tags)) FROM people

SQLError unsupported-expression at 1:14+12
error: lists, structs and maps can't be built or opened in a query
   1 | SELECT COUNT(unnest(tags)) FROM people
     |              ^^^^^^^^^^^^
help: use columns that are numbers, texts, dates or booleans; `dpsql functions` lists what can be used
----
-- json
SELECT COUNT(json_extract(name, '$.a')) FROM people

SQLError unknown-function at 1:14+25
error: unknown function JSON_EXTRACT
   1 | SELECT COUNT(json_extract(name, '$.a')) FROM people
     |              ^^^^^^^^^^^^^^^^^^^^^^^^^
help: `dpsql functions` lists what can be used
----
-- hash
SELECT SUM(hash(name)) FROM people

SQLError unsafe-function at 1:12+10
error: HASH() isn't allowed: it makes an identifier that reveals its value
   1 | SELECT SUM(hash(name)) FROM people
     |            ^^^^^^^^^^
help: compare or group by the column itself
----
-- md5
SELECT COUNT(*) FROM people WHERE md5(name) = 'x'

SQLError unsafe-function at 1:35+9
error: MD5() isn't allowed: it makes an identifier that reveals its value
   1 | SELECT COUNT(*) FROM people WHERE md5(name) = 'x'
     |                                   ^^^^^^^^^
help: compare or group by the column itself
----
-- columns expression
SELECT SUM(COLUMNS('.*')) FROM people

PrivacyError needs-range at 1:20+4
error: SUM needs a range for people.id
   1 | SELECT SUM(COLUMNS('.*')) FROM people
     |                    ^^^^
help: give id a min and a max in the policy: [tables.people.columns] id = { min = low, max = high }
      or clip it in the query: SUM(CLIP(id, low, high)), where low and high are the least and the greatest value that you expect
----
-- query()
SELECT COUNT(*) FROM query('SELECT * FROM people')

SQLError unknown-table at 1:22+29
error: table functions, files and other schemas can't be read
   1 | SELECT COUNT(*) FROM query('SELECT * FROM people')
     |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- query_table()
SELECT COUNT(*) FROM query_table('people')

SQLError unknown-table at 1:22+21
error: table functions, files and other schemas can't be read
   1 | SELECT COUNT(*) FROM query_table('people')
     |                      ^^^^^^^^^^^^^^^^^^^^^
help: tables of the policy: codes, items, orders, people, survey, visits
----
-- condition that is a number
SELECT COUNT(*) FROM people WHERE age

SQLError type at 1:35+3
error: WHERE takes a condition, and age is INTEGER
   1 | SELECT COUNT(*) FROM people WHERE age
     |                                   ^^^
help: compare it: age > 0
----
-- comparison of text and number
SELECT COUNT(*) FROM people WHERE name = 1

SQLError type-mismatch at 1:42+1
error: name is VARCHAR and 1 is INTEGER: they can't be compared or combined
   1 | SELECT COUNT(*) FROM people WHERE name = 1
     |                                          ^
help: cast the text: TRY_CAST(name AS INTEGER)
----
-- text plus number
SELECT SUM(name + 1) FROM people

SQLError type-mismatch at 1:12+4
error: name is VARCHAR, not a number
   1 | SELECT SUM(name + 1) FROM people
     |            ^^^^
help: write TRY_CAST(name AS DOUBLE)
----
-- bad date
SELECT COUNT(*) FROM people WHERE born > '2024-13-45'

SQLError bad-literal at 1:42+12
error: '2024-13-45' can't be read as DATE
   1 | SELECT COUNT(*) FROM people WHERE born > '2024-13-45'
     |                                          ^^^^^^^^^^^^
help: write it like '2024-01-31'
----
-- glob operator
SELECT COUNT(*) FROM people WHERE name GLOB 'A*'

SQLError unsupported-expression at 1:35+14
error: GLOB isn't supported
   1 | SELECT COUNT(*) FROM people WHERE name GLOB 'A*'
     |                                   ^^^^^^^^^^^^^^
help: use LIKE, with % for any text: x LIKE 'a%'
----
-- collation
SELECT COUNT(*) FROM people WHERE name COLLATE NOCASE = 'a'

SQLError unsupported-expression at 1:35+4
error: COLLATE isn't supported
   1 | SELECT COUNT(*) FROM people WHERE name COLLATE NOCASE = 'a'
     |                                   ^^^^
help: compare in lower case: LOWER(x) = 'a'
----
-- cast to an unknown type
SELECT COUNT(CAST(age AS frob)) FROM people

SQLError unsupported-type at 1:14+17
error: a cast to frob isn't supported
   1 | SELECT COUNT(CAST(age AS frob)) FROM people
     |              ^^^^^^^^^^^^^^^^^
help: cast to numbers, BOOLEAN, VARCHAR, DATE, TIMESTAMP and TIMESTAMPTZ
----
-- sleep
SELECT COUNT(*) FROM people WHERE name = 'n77' AND sleep_ms(1000) IS NULL

SQLError unsafe-function at 1:52+14
error: SLEEP_MS() isn't allowed: how long a query takes would depend on single rows
   1 | SELECT COUNT(*) FROM people WHERE name = 'n77' AND sleep_ms(1000) IS NULL
     |                                                    ^^^^^^^^^^^^^^
help: leave it out
----
-- transaction number
SELECT SUM(txid_current()) FROM people

SQLError volatile-function at 1:12+14
error: TXID_CURRENT() gives another value each time
   1 | SELECT SUM(txid_current()) FROM people
     |            ^^^^^^^^^^^^^^
help: use columns and constants only
----
-- IS with a value
SELECT COUNT(*) FROM people WHERE age IS 5

SQLError unsupported-expression at 1:35+8
error: age IS 5: only NULL, TRUE and FALSE can follow IS
   1 | SELECT COUNT(*) FROM people WHERE age IS 5
     |                                   ^^^^^^^^
help: write x IS NULL, x IS NOT NULL, or x IS NOT DISTINCT FROM y
----
-- too few arguments
SELECT SUM(CLIP(age, 0)) FROM people

SQLError wrong-arguments at 1:12+12
error: CLIP(age, 0) takes 3 arguments, not 2
   1 | SELECT SUM(CLIP(age, 0)) FROM people
     |            ^^^^^^^^^^^^
help: give it 3; `dpsql functions` says what they are
----
-- date from a number
SELECT COUNT(CAST(age AS DATE)) FROM people

SQLError type-mismatch at 1:14+17
error: age is INTEGER, which can't be cast to DATE
   1 | SELECT COUNT(CAST(age AS DATE)) FROM people
     |              ^^^^^^^^^^^^^^^^^
help: dates are made of text: STRPTIME('2024-01-31', '%Y-%m-%d'), or CAST('2024-01-31' AS DATE)
----
-- number from a date
SELECT COUNT(CAST(born AS INTEGER)) FROM people

SQLError type-mismatch at 1:14+21
error: born is DATE, which can't be cast to INTEGER
   1 | SELECT COUNT(CAST(born AS INTEGER)) FROM people
     |              ^^^^^^^^^^^^^^^^^^^^^
help: dates give numbers through YEAR(born) or DATE_DIFF('day', DATE '2000-01-01', born)
----
-- date and number
SELECT COUNT(*) FROM people WHERE born > 2000

SQLError type-mismatch at 1:42+4
error: born is DATE and 2000 is INTEGER: they can't be compared or combined
   1 | SELECT COUNT(*) FROM people WHERE born > 2000
     |                                          ^^^^
help: compare dates with dates: born >= DATE '2024-01-31'; or take a number of it: YEAR(born)
----
-- part of a number
SELECT AVG(YEAR(age)) FROM people

SQLError type-mismatch at 1:17+3
error: age is INTEGER, not a date
   1 | SELECT AVG(YEAR(age)) FROM people
     |                 ^^^
help: use a DATE or TIMESTAMP, or STRPTIME on a text
----
-- unknown date part
SELECT COUNT(*) FROM people WHERE EXTRACT(moon FROM born) = 1

SQLError unknown-part at 1:35+23
error: unknown date part moon
   1 | SELECT COUNT(*) FROM people WHERE EXTRACT(moon FROM born) = 1
     |                                   ^^^^^^^^^^^^^^^^^^^^^^^
help: did you mean month?
----
-- interval from a row
SELECT COUNT(born + INTERVAL (age) DAY) FROM people

SQLError literal-needed at 1:31+3
error: an INTERVAL must be a constant
   1 | SELECT COUNT(born + INTERVAL (age) DAY) FROM people
     |                               ^^^
help: write INTERVAL 30 DAY
----
-- interval of months and a half
SELECT COUNT(*) FROM people WHERE born + INTERVAL 1.5 MONTH > DATE '2000-01-01'

SQLError bad-literal at 1:51+3
error: INTERVAL 1.5 MONTH has a part that DuckDB drops
   1 | SELECT COUNT(*) FROM people WHERE born + INTERVAL 1.5 MONTH > DATE '2000-01-01'
     |                                                   ^^^
help: write a whole number (INTERVAL 1 MONTH), or INTERVAL '1.5 months' to keep the part
----
-- text that is no number
SELECT COUNT(*) FROM people WHERE age = 'old'

SQLError bad-literal at 1:41+5
error: 'old' can't be read as INTEGER
   1 | SELECT COUNT(*) FROM people WHERE age = 'old'
     |                                         ^^^^^
help: write a number: 5
----
-- type that DuckDB alone refuses
SELECT label + 1 FROM codes

SQLError duckdb at 1:14+1
error: DuckDB: No function matches the given name and argument types '+(VARCHAR, INTEGER_LITERAL)'. You might need to add explicit type casts.
   1 | SELECT label + 1 FROM codes
     |              ^
help: change the query there: DuckDB refuses it whatever the data; `dpsql functions` lists what works
----
-- not grouped, in a public query
SELECT label, COUNT(*) FROM codes

SQLError duckdb at 1:8+5
error: DuckDB: column "label" must appear in the GROUP BY clause or must be part of an aggregate function.
   1 | SELECT label, COUNT(*) FROM codes
     |        ^^^^^
help: change the query there: DuckDB refuses it whatever the data; `dpsql functions` lists what works
----
-- padding to a length that depends on the row
SELECT LPAD(name, age, '0') AS k, COUNT(*) FROM people GROUP BY k

SQLError literal-needed at 1:19+3
error: the length must be a whole number from 0 to 1000, not age
   1 | SELECT LPAD(name, age, '0') AS k, COUNT(*) FROM people GROUP BY k
     |                   ^^^
help: write it as a constant: 1
----
-- padding without a text
SELECT COUNT(*) FROM people WHERE RPAD(name, 5) = 'x'

SQLError wrong-arguments at 1:35+13
error: LPAD and RPAD need a text to fill up with
   1 | SELECT COUNT(*) FROM people WHERE RPAD(name, 5) = 'x'
     |                                   ^^^^^^^^^^^^^
help: write LPAD(x, 5, '0')
----
-- padding of results without an end
SELECT LPAD(region, 1000000000, 'x') FROM (SELECT region, COUNT(*) FROM people GROUP BY region)

SQLError literal-needed at 1:21+10
error: the length must be a whole number from 0 to 1000, not 1000000000
   1 | SELECT LPAD(region, 1000000000, 'x') FROM (SELECT region, COUNT(*) FROM people GROUP BY region)
     |                     ^^^^^^^^^^
help: write it as a constant: 1
----
-- replacement of a group that the pattern lacks
SELECT COUNT(*) FROM people WHERE REGEXP_REPLACE(name, 'a', '\1') = 'x'

SQLError bad-pattern at 1:61+4
error: '\1' names a group that the pattern doesn't have
   1 | SELECT COUNT(*) FROM people WHERE REGEXP_REPLACE(name, 'a', '\1') = 'x'
     |                                                             ^^^^
help: put (…) around it there
----
-- replacement that ends in a backslash
SELECT COUNT(*) FROM people WHERE REGEXP_REPLACE(name, 'a', 'b\') = 'x'

SQLError bad-pattern at 1:61+4
error: 'b\': a backslash is followed by a digit or a backslash
   1 | SELECT COUNT(*) FROM people WHERE REGEXP_REPLACE(name, 'a', 'b\') = 'x'
     |                                                             ^^^^
help: write '\1' or '\\'
----
-- replacement by a pattern from the row
SELECT COUNT(*) FROM people WHERE REGEXP_REPLACE(name, code, 'x') = 'x'

SQLError literal-needed at 1:56+4
error: a regular expression must be a string literal, not code
   1 | SELECT COUNT(*) FROM people WHERE REGEXP_REPLACE(name, code, 'x') = 'x'
     |                                                        ^^^^
help: write it as a constant: a pattern or a format that comes from a row could make a query fail on that row
----
-- replacement with look-around
SELECT COUNT(*) FROM people WHERE REGEXP_REPLACE(name, '(?=a)', 'x') = 'x'

SQLError bad-pattern at 1:56+7
error: '(?=a)' isn't a regular expression that DuckDB understands
   1 | SELECT COUNT(*) FROM people WHERE REGEXP_REPLACE(name, '(?=a)', 'x') = 'x'
     |                                                        ^^^^^^^
help: the syntax is RE2's: no back-references, no look-around
----
-- unknown time zone
SELECT COUNT(*) FROM people WHERE seen AT TIME ZONE 'Mars/Base' > '2024-01-01'

SQLError bad-literal at 1:53+11
error: 'Mars/Base' isn't a time zone
   1 | SELECT COUNT(*) FROM people WHERE seen AT TIME ZONE 'Mars/Base' > '2024-01-01'
     |                                                     ^^^^^^^^^^^
help: write it like 'Europe/Berlin', 'America/New_York' or 'UTC'
----
-- unknown time zone over results
SELECT TIMESTAMP '2024-01-01' AT TIME ZONE 'Mars/Base', COUNT(*) FROM people

SQLError bad-literal at 1:44+11
error: 'Mars/Base' isn't a time zone
   1 | SELECT TIMESTAMP '2024-01-01' AT TIME ZONE 'Mars/Base', COUNT(*) FROM people
     |                                            ^^^^^^^^^^^
help: write it like 'Europe/Berlin', 'America/New_York' or 'UTC'
----
-- bucket of no width
SELECT TIME_BUCKET(INTERVAL '0 days', born) AS b, COUNT(*) FROM people GROUP BY b

SQLError bad-literal at 1:8+36
error: the width of a TIME_BUCKET is a positive number of months, or of days and smaller units
   1 | SELECT TIME_BUCKET(INTERVAL '0 days', born) AS b, COUNT(*) FROM people GROUP BY b
     |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write INTERVAL '3 days' or INTERVAL '1 month'
----
-- bucket of months and days
SELECT TIME_BUCKET(INTERVAL '1 month 3 days', born) AS b, COUNT(*) FROM people GROUP BY b

SQLError bad-literal at 1:29+16
error: the width of a TIME_BUCKET is a positive number of months, or of days and smaller units
   1 | SELECT TIME_BUCKET(INTERVAL '1 month 3 days', born) AS b, COUNT(*) FROM people GROUP BY b
     |                             ^^^^^^^^^^^^^^^^
help: write INTERVAL '3 days' or INTERVAL '1 month'
----
-- bucket of a computed width
SELECT TIME_BUCKET(TO_DAYS(age), born) AS b, COUNT(*) FROM people GROUP BY b

SQLError literal-needed at 1:20+12
error: the width of a TIME_BUCKET is a constant
   1 | SELECT TIME_BUCKET(TO_DAYS(age), born) AS b, COUNT(*) FROM people GROUP BY b
     |                    ^^^^^^^^^^^^
help: write TIME_BUCKET(INTERVAL '3 days', x)
----
-- date of texts
SELECT COUNT(*) FROM people WHERE MAKE_DATE(name, 1, 1) > '2024-01-01'

SQLError type-mismatch at 1:45+4
error: MAKE_DATE takes a year, a month and a day
   1 | SELECT COUNT(*) FROM people WHERE MAKE_DATE(name, 1, 1) > '2024-01-01'
     |                                             ^^^^
help: write MAKE_DATE(year, month, day) with whole numbers
----
-- divisor of a fraction
SELECT SUM(GCD(height, 2)) FROM people

SQLError type-mismatch at 1:16+6
error: height is DOUBLE, not a BIGINT
   1 | SELECT SUM(GCD(height, 2)) FROM people
     |                ^^^^^^
help: write CAST(height AS BIGINT)
----
-- rounding to digits of the row
SELECT SUM(ROUND_EVEN(height, age)) FROM people

SQLError literal-needed at 1:31+3
error: digits must be a whole number from -40 to 40, not age
   1 | SELECT SUM(ROUND_EVEN(height, age)) FROM people
     |                               ^^^
help: write it as a constant: 1
----
-- replacement with unknown options
SELECT COUNT(*) FROM people WHERE REGEXP_REPLACE(name, 'a', 'b', 'q') = 'x'

SQLError bad-pattern at 1:66+3
error: unknown options 'q'
   1 | SELECT COUNT(*) FROM people WHERE REGEXP_REPLACE(name, 'a', 'b', 'q') = 'x'
     |                                                                  ^^^
help: write 'g', 'i' or 'gi'
----
-- an unknown function over results, with the nearest name
SELECT STRIP_ACCENT(region), COUNT(*) FROM people GROUP BY region

SQLError unknown-function at 1:8+20
error: unknown function STRIP_ACCENT
   1 | SELECT STRIP_ACCENT(region), COUNT(*) FROM people GROUP BY region
     |        ^^^^^^^^^^^^^^^^^^^^
help: did you mean STRIP_ACCENTS?
