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
