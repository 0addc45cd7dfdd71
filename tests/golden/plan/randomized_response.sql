-- randomised rows are a release, and all above them is post-processing
WITH r AS (SELECT RANDOMIZED_RESPONSE(grade) AS g, NOT RANDOMIZED_RESPONSE(yes) AS no FROM poll)
SELECT label, RR_COUNT(g, 3) AS n FROM r JOIN codes ON no GROUP BY label ORDER BY n LIMIT 3

r0:
  scan poll, unit row
  a0 = RANDOMIZED_RESPONSE(poll.grade)
  a1 = RANDOMIZED_RESPONSE(poll.yes)
post:
  SELECT
    "codes"."label" AS "label",
    RR_COUNT("r"."g", 3) AS "n"
  FROM (
    SELECT
      "r0"."a0" AS "g",
      NOT "r0"."a1" AS "no"
    FROM "r0"
  ) AS "r"
  JOIN "codes" AS "codes"
    ON "r"."no"
  GROUP BY
    "codes"."label"
  ORDER BY
    RR_COUNT("r"."g", 3)
  LIMIT 3
