-- expanded
WITH c AS (SELECT age FROM people WHERE member) SELECT COUNT(*) FROM c

SELECT
  COUNT(*) AS "count_star()"
FROM (
  SELECT
    "people"."age" AS "age"
  FROM "people" AS "people"
  WHERE
    "people"."member"
) AS "c"
:: count_star() BIGINT
----
-- used twice
WITH c AS (SELECT COUNT(*) AS n FROM people) SELECT x.n + y.n AS s FROM c x, c y

SELECT
  "x"."n" + "y"."n" AS "s"
FROM (
  SELECT
    COUNT(*) AS "n"
  FROM "people" AS "people"
) AS "x", (
  SELECT
    COUNT(*) AS "n"
  FROM "people" AS "people"
) AS "y"
:: s BIGINT
----
-- named like a table
WITH people AS (SELECT age FROM people WHERE age < 50) SELECT COUNT(*) FROM people

SELECT
  COUNT(*) AS "count_star()"
FROM (
  SELECT
    "people"."age" AS "age"
  FROM "people" AS "people"
  WHERE
    "people"."age" < 50
) AS "people_2"
:: count_star() BIGINT
----
-- nested and shadowed
WITH c AS (SELECT 1 AS a) SELECT * FROM (WITH c AS (SELECT 2 AS b) SELECT b FROM c)

SELECT
  "subquery"."b" AS "b"
FROM (
  SELECT
    "c"."b" AS "b"
  FROM (
    SELECT
      2 AS "b"
  ) AS "c"
) AS "subquery"
:: b INTEGER
----
-- with column names
WITH c(a, b) AS (SELECT region, COUNT(*) FROM people GROUP BY 1) SELECT b, a FROM c

SELECT
  "c"."b" AS "b",
  "c"."a" AS "a"
FROM (
  SELECT
    "people"."region" AS "a",
    COUNT(*) AS "b"
  FROM "people" AS "people"
  GROUP BY
    "people"."region"
) AS "c"
:: b BIGINT, a VARCHAR
----
-- union with order
SELECT COUNT(*) AS n FROM people UNION ALL SELECT SUM(age) FROM people ORDER BY n LIMIT 1

SELECT
  COUNT(*) AS "n"
FROM "people" AS "people"
UNION ALL
SELECT
  SUM("people_2"."age") AS "sum(age)"
FROM "people" AS "people_2"
ORDER BY
  "n"
LIMIT 1
:: n HUGEINT
