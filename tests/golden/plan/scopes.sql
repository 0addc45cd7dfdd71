-- an outer select is post-processing
SELECT AVG(n) FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region) WHERE n > 3

r0:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
  a1 = which groups are there
post:
  SELECT
    AVG("subquery"."n") AS "avg(n)"
  FROM (
    SELECT
      "r0"."k0" AS "region",
      "r0"."a0" AS "n"
    FROM "r0"
    WHERE
      "r0"."present"
  ) AS "subquery"
  WHERE
    "subquery"."n" > 3
----
-- derived rows are folded into the scan
SELECT SUM(b) FROM (SELECT age + 1 AS b FROM people WHERE member) WHERE b < 50

r0:
  scan people, unit id
  filter member
  filter age + 1 < 50
  a0 = SUM(subquery.b)
post:
  SELECT
    "r0"."a0" AS "sum(b)"
  FROM "r0"
----
-- an equal release is measured once
WITH c AS (SELECT COUNT(*) AS n FROM people) SELECT x.n, y.n FROM c x, c y

r0:
  scan people, unit id
  a0 = COUNT(*)
post:
  SELECT
    "x"."n" AS "n",
    "y"."n" AS "n_1"
  FROM (
    SELECT
      "r0"."a0" AS "n"
    FROM "r0"
  ) AS "x", (
    SELECT
      "r0"."a0" AS "n"
    FROM "r0"
  ) AS "y"
----
-- two releases
SELECT (SELECT COUNT(*) FROM people) + (SELECT COUNT(*) FROM survey) AS n

r0:
  scan people, unit id
  a0 = COUNT(*)
r1:
  scan survey, unit row
  a0 = COUNT(*)
post:
  SELECT
    (
      SELECT
        "r0"."a0" AS "count_star()"
      FROM "r0"
    ) + (
      SELECT
        "r1"."a0" AS "count_star()"
      FROM "r1"
    ) AS "n"
----
-- a public table joins the result
WITH r AS (SELECT code, COUNT(*) AS n FROM people GROUP BY code) SELECT label, n FROM codes LEFT JOIN r USING (code)

r0:
  scan people, unit id
  key k0 = code
  a0 = COUNT(*)
post:
  SELECT
    "codes"."label" AS "label",
    "r"."n" AS "n"
  FROM "codes" AS "codes"
  LEFT JOIN (
    SELECT
      "r0"."k0" AS "code",
      "r0"."a0" AS "n"
    FROM "r0"
  ) AS "r"
    ON "codes"."code" = "r"."code"
----
-- union of results
SELECT 'p' AS t, COUNT(*) AS n FROM people UNION ALL SELECT 's', COUNT(*) FROM survey

r0:
  scan people, unit id
  a0 = COUNT(*)
r1:
  scan survey, unit row
  a0 = COUNT(*)
post:
  SELECT
    'p' AS "t",
    "r0"."a0" AS "n"
  FROM "r0"
  UNION ALL
  SELECT
    's' AS "'s'",
    "r1"."a0" AS "count_star()"
  FROM "r1"
----
-- scalar subquery in having
SELECT region FROM people GROUP BY region HAVING COUNT(*) > (SELECT COUNT(*) FROM people) / 3

r0:
  scan people, unit id
  a0 = COUNT(*)
r1:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
  a1 = which groups are there
post:
  SELECT
    "r1"."k0" AS "region"
  FROM "r1"
  WHERE
    "r1"."a0" > (
      SELECT
        "r0"."a0" AS "count_star()"
      FROM "r0"
    ) / 3
    AND "r1"."present"
----
-- public alone
SELECT label FROM codes WHERE code = 'x1'

post:
  SELECT
    "codes"."label" AS "label"
  FROM "codes" AS "codes"
  WHERE
    "codes"."code" = 'x1'
----
-- a shadowed table
WITH people AS (SELECT * FROM people WHERE age < 18) SELECT COUNT(*) FROM people

r0:
  scan people, unit id
  filter age < 18
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- units
SELECT region, COUNT(DISTINCT who) FROM (SELECT id AS who, region FROM people) GROUP BY region

r0:
  scan people, unit id
  key k0 = region
  a0 = COUNT(DISTINCT subquery.who)
post:
  SELECT
    "r0"."k0" AS "region",
    "r0"."a0" AS "count(distinct who)"
  FROM "r0"
