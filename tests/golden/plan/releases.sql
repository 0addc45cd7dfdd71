-- count
SELECT COUNT(*) FROM people

r0:
  scan people, unit id
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- where
SELECT AVG(age) FROM people WHERE member AND income > 5

r0:
  scan people, unit id
  filter member AND income > 5
  a0 = AVG(people.age)
post:
  SELECT
    "r0"."a0" AS "avg(age)"
  FROM "r0"
----
-- keys
SELECT region, age // 10 AS decade, COUNT(*), SUM(income) FROM people GROUP BY ALL

r0:
  scan people, unit id
  key k0 = region
  key k1 = age // 10
  a0 = COUNT(*)
  a1 = SUM(people.income)
post:
  SELECT
    "r0"."k0" AS "region",
    "r0"."k1" AS "decade",
    "r0"."a0" AS "count_star()",
    "r0"."a1" AS "sum(income)"
  FROM "r0"
----
-- one aggregate is measured once
SELECT COUNT(*), COUNT(*) + 1, COUNT(*) * 2 FROM people HAVING COUNT(*) > 0

r0:
  scan people, unit id
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()",
    "r0"."a0" + 1 AS "count(*) + 1",
    "r0"."a0" * 2 AS "count(*) * 2"
  FROM "r0"
  WHERE
    "r0"."a0" > 0
----
-- filter
SELECT COUNT(*) FILTER (WHERE member) / COUNT(*) AS share FROM people

r0:
  scan people, unit id
  a0 = COUNT(*) FILTER(WHERE people.member)
  a1 = COUNT(*)
post:
  SELECT
    "r0"."a0" / "r0"."a1" AS "share"
  FROM "r0"
----
-- having
SELECT region FROM people GROUP BY region HAVING SUM(age) > 100

r0:
  scan people, unit id
  key k0 = region
  a0 = SUM(people.age)
post:
  SELECT
    "r0"."k0" AS "region"
  FROM "r0"
  WHERE
    "r0"."a0" > 100
----
-- order and limit
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY n DESC LIMIT 1

r0:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
post:
  SELECT
    "r0"."k0" AS "region",
    "r0"."a0" AS "n"
  FROM "r0"
  ORDER BY
    "r0"."a0" DESC
  LIMIT 1
----
-- windows
SELECT region, COUNT(*) / SUM(COUNT(*)) OVER () AS share, RANK() OVER w AS r FROM people GROUP BY region WINDOW w AS (ORDER BY COUNT(*))

r0:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
  a1 = which groups are there
post:
  SELECT
    "r0"."k0" AS "region",
    "r0"."a0" / SUM("r0"."a0") OVER () AS "share",
    RANK() OVER w AS "r"
  FROM "r0"
  WHERE
    "r0"."present"
  WINDOW w AS (ORDER BY "r0"."a0")
----
-- qualify
SELECT region FROM people GROUP BY region QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*)) = 1

r0:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
  a1 = which groups are there
post:
  SELECT
    "r0"."k0" AS "region"
  FROM "r0"
  WHERE
    "r0"."present"
  QUALIFY
    ROW_NUMBER() OVER (ORDER BY "r0"."a0") = 1
----
-- distinct keys
SELECT DISTINCT region, member FROM people

r0:
  scan people, unit id
  key k0 = region
  key k1 = member
  a0 = which groups are there
post:
  SELECT
    "r0"."k0" AS "region",
    "r0"."k1" AS "member"
  FROM "r0"
  WHERE
    "r0"."present"
----
-- distinct over results
SELECT DISTINCT COUNT(*) > 10 FROM people GROUP BY region

r0:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
post:
  SELECT DISTINCT
    "r0"."a0" > 10 AS "count(*) > 10"
  FROM "r0"
----
-- one release for each grouping set
SELECT region, member, GROUPING(region, member) AS g, COUNT(*) AS n FROM people
GROUP BY ROLLUP (region, member) HAVING n > 10 ORDER BY g

r0:
  scan people, unit id
  key k0 = region
  key k1 = member
  a0 = COUNT(*)
r1:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
r2:
  scan people, unit id
  a0 = COUNT(*)
post:
  SELECT
    "grouping sets"."k0" AS "region",
    "grouping sets"."k1" AS "member",
    "grouping sets"."g0" AS "g",
    "grouping sets"."a0" AS "n"
  FROM (
    SELECT
      "r0"."k0" AS "k0",
      "r0"."k1" AS "k1",
      "r0"."a0" AS "a0",
      CAST(0 AS BIGINT) AS "g0"
    FROM "r0"
    UNION ALL
    SELECT
      "r1"."k0" AS "k0",
      NULL AS "k1",
      "r1"."a0" AS "a0",
      CAST(1 AS BIGINT) AS "g0"
    FROM "r1"
    UNION ALL
    SELECT
      NULL AS "k0",
      NULL AS "k1",
      "r2"."a0" AS "a0",
      CAST(3 AS BIGINT) AS "g0"
    FROM "r2"
  ) AS "grouping sets"
  WHERE
    "grouping sets"."a0" > 10
  ORDER BY
    "grouping sets"."g0"
----
-- a set given twice is measured once
SELECT region, COUNT(*) FROM people GROUP BY GROUPING SETS ((region), (region))

r0:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
post:
  SELECT
    "grouping sets"."k0" AS "region",
    "grouping sets"."a0" AS "count_star()"
  FROM (
    SELECT
      "r0"."k0" AS "k0",
      "r0"."a0" AS "a0"
    FROM "r0"
    UNION ALL
    SELECT
      "r0"."k0" AS "k0",
      "r0"."a0" AS "a0"
    FROM "r0"
  ) AS "grouping sets"
----
-- a set that another query asks for is measured once
SELECT COUNT(*) FROM people UNION ALL SELECT COUNT(*) FROM people GROUP BY ROLLUP (region)

r0:
  scan people, unit id
  a0 = COUNT(*)
r1:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
  UNION ALL
  SELECT
    "grouping sets"."a0" AS "count_star()"
  FROM (
    SELECT
      "r1"."k0" AS "k0",
      "r1"."a0" AS "a0"
    FROM "r1"
    UNION ALL
    SELECT
      NULL AS "k0",
      "r0"."a0" AS "a0"
    FROM "r0"
  ) AS "grouping sets"
----
-- a pivot is aggregates with filters
PIVOT people ON region IN ('north', 'south') USING COUNT(*), AVG(age) GROUP BY member

r0:
  scan people, unit id
  key k0 = member
  a0 = COUNT(*) FILTER(WHERE CAST(people.region AS TEXT) = 'north')
  a1 = AVG(people.age) FILTER(WHERE CAST(people.region AS TEXT) = 'north')
  a2 = COUNT(*) FILTER(WHERE CAST(people.region AS TEXT) = 'south')
  a3 = AVG(people.age) FILTER(WHERE CAST(people.region AS TEXT) = 'south')
post:
  SELECT
    "pivot"."member" AS "member",
    "pivot"."north_count_star()" AS "north_count_star()",
    "pivot"."north_avg(age)" AS "north_avg(age)",
    "pivot"."south_count_star()" AS "south_count_star()",
    "pivot"."south_avg(age)" AS "south_avg(age)"
  FROM (
    SELECT
      "r0"."k0" AS "member",
      "r0"."a0" AS "north_count_star()",
      "r0"."a1" AS "north_avg(age)",
      "r0"."a2" AS "south_count_star()",
      "r0"."a3" AS "south_avg(age)"
    FROM "r0"
  ) AS "pivot"
----
-- an unpivot reads its release once
UNPIVOT (SELECT region, COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY region) ON n, s

r0:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
  a1 = SUM(people_2.age)
post:
  SELECT
    "pivot"."region" AS "region",
    "pivot"."name" AS "name",
    "pivot"."value" AS "value"
  FROM (
    SELECT
      "subquery_2"."region" AS "region",
      'n' AS "name",
      "subquery_2"."n" AS "value"
    FROM (
      SELECT
        "r0"."k0" AS "region",
        "r0"."a0" AS "n",
        "r0"."a1" AS "s"
      FROM "r0"
    ) AS "subquery_2"
    WHERE
      NOT "subquery_2"."n" IS NULL
    UNION ALL
    SELECT
      "subquery_3"."region" AS "region",
      's' AS "name",
      "subquery_3"."s" AS "value"
    FROM (
      SELECT
        "r0"."k0" AS "region",
        "r0"."a0" AS "n",
        "r0"."a1" AS "s"
      FROM "r0"
    ) AS "subquery_3"
    WHERE
      NOT "subquery_3"."s" IS NULL
  ) AS "pivot"
----
-- entropy by group is counted by the value, too
SELECT region, ENTROPY(member) FROM people GROUP BY region

r0:
  scan people, unit id
  filter NOT ((member) IS NULL)
  key k0 = region
  key k1 = member
  a0 = COUNT(*)
r1:
  scan people, unit id
  key k0 = region
post:
  SELECT
    "r1"."k0" AS "region",
    (
      SELECT
        GREATEST(
          COALESCE(
            (
              LN(SUM(CAST(GREATEST("r0"."a0", 0) AS DOUBLE))) - SUM(
                CAST(GREATEST("r0"."a0", 0) AS DOUBLE) * LN(CAST(GREATEST("r0"."a0", 0) AS DOUBLE))
              ) / SUM(CAST(GREATEST("r0"."a0", 0) AS DOUBLE))
            ) / LN(2),
            0.0
          ),
          0.0
        )
      FROM "r0"
      WHERE
        NOT (
          "r0"."k1" IS NULL
        ) AND "r0"."k0" IS NOT DISTINCT FROM "r1"."k0"
    ) AS "entropy(member)"
  FROM "r1"
----
-- how many groups there are
SELECT COUNT(*), COUNT(age) FROM (SELECT DISTINCT region, age FROM people) WHERE age > 9

r0:
  scan people, unit id
  filter age > 9
  a0 = COUNT(DISTINCT (people.region, people.age))
  a1 = COUNT(DISTINCT (people.region, people.age)) FILTER(WHERE (NOT ((people.age) IS NULL)))
post:
  SELECT
    "r0"."a0" AS "count_star()",
    "r0"."a1" AS "count(age)"
  FROM "r0"
----
-- a union of rows lists values
SELECT region FROM people UNION SELECT region FROM people WHERE age > 9 ORDER BY 1 LIMIT 2

r0:
  union all
    scan people, unit id
    columns privacy unit = id, region
    scan people, unit id
    filter age > 9
    columns privacy unit = id, region
  key k0 = region
  a0 = which groups are there
post:
  SELECT
    "r0"."k0" AS "region"
  FROM "r0"
  WHERE
    "r0"."present"
  ORDER BY
    "r0"."k0"
  LIMIT 2
----
-- a list of groups is part of their counts
SELECT region FROM people GROUP BY region HAVING COUNT(*) > (SELECT AVG(n) FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY 1)) AND region IN (SELECT DISTINCT region FROM people)

r0:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
  a1 = which groups are there
post:
  SELECT
    "r0"."k0" AS "region"
  FROM "r0"
  WHERE
    (
      "r0"."a0" > (
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
      )
      AND "r0"."k0" IN (
        SELECT
          "r0"."k0" AS "region"
        FROM "r0"
        WHERE
          "r0"."present"
      )
    )
    AND "r0"."present"
