-- shown
SELECT PRIVACY_UNIT() FROM people

PrivacyError returns-rows at 1:8+14
error: the query returns rows of a private table, people
   1 | SELECT PRIVACY_UNIT() FROM people
     |        ^^^^^^^^^^^^^^
help: aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY
----
-- as a key
SELECT PRIVACY_UNIT(), COUNT(*) FROM people GROUP BY PRIVACY_UNIT()

PrivacyError returns-rows at 1:54+14
error: GROUP BY keeps the unit of people: each group would be one person's
   1 | SELECT PRIVACY_UNIT(), COUNT(*) FROM people GROUP BY PRIVACY_UNIT()
     |                                                      ^^^^^^^^^^^^^^
help: group by something that many people share; or aggregate once more: SELECT AVG(n) FROM (SELECT …)
----
-- counted without DISTINCT
SELECT COUNT(PRIVACY_UNIT()) FROM people

PrivacyError privacy-unit at 1:8+21
error: PRIVACY_UNIT() stands for the owner of a private row, and can only be counted
   1 | SELECT COUNT(PRIVACY_UNIT()) FROM people
     |        ^^^^^^^^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT()) over a private table
----
-- summed
SELECT SUM(PRIVACY_UNIT()) FROM people

PrivacyError privacy-unit at 1:8+19
error: PRIVACY_UNIT() stands for the owner of a private row, and can only be counted
   1 | SELECT SUM(PRIVACY_UNIT()) FROM people
     |        ^^^^^^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT()) over a private table
----
-- beside an aggregate
SELECT COUNT(*) + PRIVACY_UNIT() FROM people

PrivacyError privacy-unit at 1:19+14
error: PRIVACY_UNIT() stands for the owner of a private row, and can only be counted
   1 | SELECT COUNT(*) + PRIVACY_UNIT() FROM people
     |                   ^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT()) over a private table
----
-- in HAVING
SELECT region, COUNT(*) FROM people GROUP BY region HAVING PRIVACY_UNIT() = 77

PrivacyError privacy-unit at 1:60+14
error: PRIVACY_UNIT() stands for the owner of a private row, and can only be counted
   1 | SELECT region, COUNT(*) FROM people GROUP BY region HAVING PRIVACY_UNIT() = 77
     |                                                            ^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT()) over a private table
----
-- of a public table
SELECT PRIVACY_UNIT(), label FROM codes

PrivacyError privacy-unit at 1:8+14
error: PRIVACY_UNIT() stands for the owner of a private row, and can only be counted
   1 | SELECT PRIVACY_UNIT(), label FROM codes
     |        ^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT()) over a private table
----
-- counted in a public table
SELECT COUNT(DISTINCT PRIVACY_UNIT()) FROM codes

PrivacyError privacy-unit at 1:23+14
error: PRIVACY_UNIT() stands for the owner of a private row, and can only be counted
   1 | SELECT COUNT(DISTINCT PRIVACY_UNIT()) FROM codes
     |                       ^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT()) over a private table
----
-- counted over results
SELECT COUNT(DISTINCT PRIVACY_UNIT()) FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region)

PrivacyError privacy-unit at 1:23+14
error: PRIVACY_UNIT() stands for the owner of a private row, and can only be counted
   1 | SELECT COUNT(DISTINCT PRIVACY_UNIT()) FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region)
     |                       ^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT()) over a private table
----
-- with an argument
SELECT COUNT(DISTINCT PRIVACY_UNIT(id)) FROM people

SQLError privacy-unit at 1:23+16
error: PRIVACY_UNIT() takes no argument
   1 | SELECT COUNT(DISTINCT PRIVACY_UNIT(id)) FROM people
     |                       ^^^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT())
----
-- of nothing
SELECT PRIVACY_UNIT()

PrivacyError privacy-unit at 1:8+14
error: PRIVACY_UNIT() stands for the owner of a private row, and can only be counted
   1 | SELECT PRIVACY_UNIT()
     |        ^^^^^^^^^^^^^^
help: write COUNT(DISTINCT PRIVACY_UNIT()) over a private table
