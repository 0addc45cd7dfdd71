-- group by all
SELECT region, member, COUNT(*) FROM people GROUP BY ALL

SELECT
  "people"."region" AS "region",
  "people"."member" AS "member",
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
GROUP BY
  "people"."region",
  "people"."member"
:: region VARCHAR, member BOOLEAN, count_star() BIGINT
----
-- group by ordinals
SELECT region, member, COUNT(*) FROM people GROUP BY 2, 1

SELECT
  "people"."region" AS "region",
  "people"."member" AS "member",
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
GROUP BY
  "people"."member",
  "people"."region"
:: region VARCHAR, member BOOLEAN, count_star() BIGINT
----
-- order by all
SELECT region, COUNT(*) FROM people GROUP BY ALL ORDER BY ALL DESC NULLS LAST

SELECT
  "people"."region" AS "region",
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
GROUP BY
  "people"."region"
ORDER BY
  "people"."region" DESC,
  COUNT(*) DESC
:: region VARCHAR, count_star() BIGINT
----
-- order by ordinal
SELECT region, COUNT(*) FROM people GROUP BY 1 ORDER BY 2 DESC LIMIT 3 OFFSET 1

SELECT
  "people"."region" AS "region",
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
GROUP BY
  "people"."region"
ORDER BY
  COUNT(*) DESC
LIMIT 3
OFFSET 1
:: region VARCHAR, count_star() BIGINT
----
-- from first
FROM people SELECT COUNT(*) WHERE member

SELECT
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
WHERE
  "people"."member"
:: count_star() BIGINT
----
-- a date literal
SELECT COUNT(*) FROM people WHERE born < DATE '2000-01-01'

SELECT
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
WHERE
  "people"."born" < CAST('2000-01-01' AS DATE)
:: count_star() BIGINT
----
-- grouping sets are spelled out
SELECT region AS r, COUNT(*) FROM people GROUP BY member, ROLLUP (r, (age, 1), code)

SELECT
  "people"."region" AS "r",
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
GROUP BY
  GROUPING SETS (
    ("people"."member", "people"."region", "people"."age", "people"."code"),
    ("people"."member", "people"."region", "people"."age"),
    ("people"."member", "people"."region"),
    ("people"."member")
  )
:: r VARCHAR, count_star() BIGINT
----
-- a cube
SELECT region, member, COUNT(*) FROM people GROUP BY CUBE (1, 2)

SELECT
  "people"."region" AS "region",
  "people"."member" AS "member",
  COUNT(*) AS "count_star()"
FROM "people" AS "people"
GROUP BY
  GROUPING SETS (
    ("people"."region", "people"."member"),
    ("people"."region"),
    ("people"."member"),
    ()
  )
:: region VARCHAR, member BOOLEAN, count_star() BIGINT
----
-- grouping sets of results
SELECT r, SUM(n) FROM (SELECT region AS r, COUNT(*) AS n FROM people GROUP BY r) GROUP BY ROLLUP (r)

SELECT
  "subquery"."r" AS "r",
  SUM("subquery"."n") AS "sum(n)"
FROM (
  SELECT
    "people"."region" AS "r",
    COUNT(*) AS "n"
  FROM "people" AS "people"
  GROUP BY
    "people"."region"
) AS "subquery"
GROUP BY
  GROUPING SETS (
    ("subquery"."r"),
    ()
  )
:: r VARCHAR, sum(n) HUGEINT
