-- sources get unique aliases
SELECT a.n, b.n FROM (SELECT COUNT(*) AS n FROM people) a, (SELECT COUNT(*) AS n FROM people) b

SELECT
  "a"."n" AS "n",
  "b"."n" AS "n_1"
FROM (
  SELECT
    COUNT(*) AS "n"
  FROM "people" AS "people"
) AS "a", (
  SELECT
    COUNT(*) AS "n"
  FROM "people" AS "people_2"
) AS "b"
:: n BIGINT, n BIGINT
----
-- columns name their source
SELECT Region, COUNT(*) FROM PEOPLE GROUP BY region

SELECT
  "people"."region" AS "Region",
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
GROUP BY
  "people"."region"
:: region VARCHAR, count_star() BIGINT
----
-- star
SELECT * FROM codes

SELECT
  "codes"."code" AS "code",
  "codes"."label" AS "label"
FROM "codes" AS "codes"
:: code VARCHAR, label VARCHAR
----
-- star with except and replace
SELECT * EXCLUDE (label) REPLACE (code || '!' AS code) FROM codes

SELECT
  "codes"."code" || '!' AS "code"
FROM "codes" AS "codes"
:: code VARCHAR
----
-- using
SELECT * FROM codes JOIN (SELECT code, COUNT(*) AS n FROM people GROUP BY code) r USING (code)

SELECT
  "codes"."code" AS "code",
  "codes"."label" AS "label",
  "r"."n" AS "n"
FROM "codes" AS "codes"
JOIN (
  SELECT
    "people"."code" AS "code",
    COUNT(*) AS "n"
  FROM "people" AS "people"
  GROUP BY
    "people"."code"
) AS "r"
  ON "codes"."code" = "r"."code"
:: code VARCHAR, label VARCHAR, n BIGINT
----
-- natural join
SELECT * FROM codes NATURAL JOIN (SELECT code, COUNT(*) AS n FROM people GROUP BY code)

SELECT
  "codes"."code" AS "code",
  "codes"."label" AS "label",
  "subquery"."n" AS "n"
FROM "codes" AS "codes"
JOIN (
  SELECT
    "people"."code" AS "code",
    COUNT(*) AS "n"
  FROM "people" AS "people"
  GROUP BY
    "people"."code"
) AS "subquery"
  ON "codes"."code" = "subquery"."code"
:: code VARCHAR, label VARCHAR, n BIGINT
----
-- a column wins over an alias in WHERE
SELECT age + 1 AS age, COUNT(*) FROM people WHERE age > 5 GROUP BY age

SELECT
  "people"."age" + 1 AS "age",
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
WHERE
  "people"."age" > 5
GROUP BY
  "people"."age"
:: age INTEGER, count_star() BIGINT
----
-- an alias in WHERE
SELECT COUNT(*) FROM (SELECT age + 1 AS a FROM people WHERE a > 5)

SELECT
  COUNT(*) AS "count_star()"
FROM (
  SELECT
    "people"."age" + 1 AS "a"
  FROM "people" AS "people"
  WHERE
    "people"."age" + 1 > 5
) AS "subquery"
:: count_star() BIGINT
----
-- an alias in GROUP BY
SELECT age // 10 AS decade, COUNT(*) FROM people GROUP BY decade

SELECT
  "people"."age" // 10 AS "decade",
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
GROUP BY
  "people"."age" // 10
:: decade INTEGER, count_star() BIGINT
----
-- an alias in HAVING
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING n > 5

SELECT
  "people"."region" AS "region",
  COUNT(*) AS "n"
FROM "people" AS "people"
GROUP BY
  "people"."region"
HAVING
  COUNT(*) > 5
:: region VARCHAR, n BIGINT
----
-- an alias wins in ORDER BY
SELECT region, -COUNT(*) AS n FROM people GROUP BY region ORDER BY n

SELECT
  "people"."region" AS "region",
  -COUNT(*) AS "n"
FROM "people" AS "people"
GROUP BY
  "people"."region"
ORDER BY
  -COUNT(*)
:: region VARCHAR, n BIGINT
----
-- an alias in the SELECT list
SELECT COUNT(*) AS n, n * 2 AS m FROM people

SELECT
  COUNT(*) AS "n",
  COUNT(*) * 2 AS "m"
FROM "people" AS "people"
:: n BIGINT, m BIGINT
----
-- quoted names
SELECT COUNT(*) AS "the ""count""" FROM people

SELECT
  COUNT(*) AS "the ""count"""
FROM "people" AS "people"
:: the "count" BIGINT
----
-- renamed columns
SELECT SUM(a) FROM (SELECT age, id FROM people) AS d(a)

SELECT
  SUM("d"."a") AS "sum(a)"
FROM (
  SELECT
    "people"."age" AS "age",
    "people"."id" AS "id"
  FROM "people" AS "people"
) AS "d"("a", "id")
:: sum(a) HUGEINT
