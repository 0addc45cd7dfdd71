-- unit join
SELECT region, COUNT(*) FROM people JOIN visits ON people.id = visits.id GROUP BY region

r0:
  scan people, unit id
  inner join on id = id_2 (units)
    scan visits, unit id_2 (id_2 = id, age_2 = age)
  key k0 = region
  a0 = COUNT(*)
post:
  SELECT
    "r0"."k0" AS "region",
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- self join
SELECT COUNT(*) FROM people a JOIN people b ON a.id = b.id

r0:
  scan people, unit id
  inner join on id = id_2 (units)
    scan people, unit id_2 (id_2 = id, name_2 = name, age_2 = age, income_2 = income, height_2 = height, region_2 = region, code_2 = code, born_2 = born, seen_2 = seen, member_2 = member, debt_2 = debt, secret_2 = secret, tags_2 = tags)
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- comma join
SELECT COUNT(*) FROM visits v, people p WHERE p.age > 3 AND v.id = p.id

r0:
  scan visits, unit id
  inner join on id = id_2 (units)
    scan people, unit id_2 (id_2 = id, age_2 = age)
  filter age_2 > 3
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- natural join keeps what is equal
SELECT COUNT(*) FROM people NATURAL JOIN visits

r0:
  scan people, unit id
  inner join on id = id_2 (units) and age = age_2
    scan visits, unit id_2 (id_2 = id, age_2 = age)
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- left join with a condition
SELECT COUNT(visits.age) FROM people LEFT JOIN visits ON visits.id = people.id AND visits.age > 3

r0:
  scan people, unit id
  left join on id = id_2 (units) and age_2 > 3
    scan visits, unit id_2 (id_2 = id, age_2 = age)
  a0 = COUNT(visits.age)
post:
  SELECT
    "r0"."a0" AS "count(visits.age)"
  FROM "r0"
----
-- right join, turned round
SELECT COUNT(*) FROM codes RIGHT JOIN people ON codes.code = people.code

r0:
  scan people, unit id
  left join on code_2 = code
    public codes (code_2 = code)
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- along a link
SELECT kind, COUNT(*) FROM items JOIN orders USING (order_id) GROUP BY kind

r0:
  scan items, unit privacy unit
  inner join on privacy unit = id (units) and order_id = order_id_2
    scan orders, unit id (order_id_2 = order_id)
  key k0 = kind
  a0 = COUNT(*)
post:
  SELECT
    "r0"."k0" AS "kind",
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- link columns on both sides
SELECT COUNT(*) FROM items a JOIN items b ON a.order_id = b.order_id

r0:
  scan items, unit privacy unit
  inner join on privacy unit = privacy unit_2 (units) and order_id = order_id_2
    scan items, unit privacy unit_2 (order_id_2 = order_id)
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- three tables in any order
SELECT region, COUNT(*) FROM codes c, items i, people p, orders o WHERE o.order_id = i.order_id AND p.code = c.code AND o.id = p.id GROUP BY region

r0:
  scan items, unit privacy unit
  inner join on privacy unit = id (units) and order_id_2 = order_id
    scan orders, unit id (order_id_2 = order_id)
  inner join on privacy unit = id_2 (units) and id = id_2
    scan people, unit id_2 (id_2 = id)
  inner join on code = code_2
    public codes (code_2 = code)
  key k0 = region
  a0 = COUNT(*)
post:
  SELECT
    "r0"."k0" AS "region",
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- join with a public table
SELECT label, COUNT(*) FROM people JOIN codes USING (code) GROUP BY label

r0:
  scan people, unit id
  inner join on code = code_2
    public codes (code_2 = code)
  key k0 = label
  a0 = COUNT(*)
post:
  SELECT
    "r0"."k0" AS "label",
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- join with a public query
SELECT COUNT(*) FROM people p JOIN (SELECT code FROM codes WHERE label <> 'one') c ON p.code = c.code

r0:
  scan people, unit id
  inner join on code = code_2
    given code_2: public, SELECT codes.code AS code FROM codes AS codes WHERE codes.label <> 'one'
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- semi-join
SELECT COUNT(*) FROM people WHERE id IN (SELECT id FROM visits WHERE age > 3)

r0:
  scan people, unit id
  mark mark: on id = id_2 (units)
    scan visits, unit id
    filter age > 3
    columns id_2 = id, age_2 = age
  filter mark
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- anti-join
SELECT COUNT(*) FROM people WHERE id NOT IN (SELECT id FROM visits)

r0:
  scan people, unit id
  mark mark: on id = id_2 (units)
    scan visits, unit id_2 (id_2 = id, age_2 = age)
  filter NOT mark
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- exists
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.id = p.id AND v.age > p.age)

r0:
  scan people, unit id
  mark mark: on id = id_2 (units) and age_2 > age
    scan visits, unit id_2 (id_2 = id, age_2 = age)
  filter mark
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- exists in a choice
SELECT COUNT(*) FILTER (WHERE age > 3 OR NOT EXISTS (SELECT 1 FROM visits v WHERE v.id = people.id)) FROM people

r0:
  scan people, unit id
  mark mark: on id = id_2 (units)
    scan visits, unit id_2 (id_2 = id, age_2 = age)
  a0 = COUNT(*) FILTER(WHERE people.age > 3 OR NOT EXISTS(SELECT 1 AS 1 FROM visits AS v WHERE v.id = people.id))
post:
  SELECT
    "r0"."a0" AS "count(*) filter(where age > 3 or not exists(select 1 from visits as v where v.id = people.id))"
  FROM "r0"
----
-- in a public list
SELECT COUNT(*) FROM people WHERE code IN (SELECT code FROM codes)

r0:
  scan people, unit id
  mark mark: code in code_2
    given code_2: public, SELECT codes.code AS code FROM codes AS codes
  filter mark
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- in a noisy list
SELECT COUNT(*) FROM people WHERE region IN (SELECT region FROM people GROUP BY region HAVING COUNT(*) > 9)

r0:
  scan people, unit id
  key k0 = region
  a0 = COUNT(*)
  a1 = which groups are there
r1:
  scan people, unit id
  mark mark: region in region_2
    given region_2: from earlier releases, SELECT r0.k0 AS region FROM r0 WHERE r0.a0 > 9 AND r0.present
  filter mark
  a0 = COUNT(*)
post:
  SELECT
    "r1"."a0" AS "count_star()"
  FROM "r1"
----
-- a noisy value filters rows
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)

r0:
  scan people, unit id
  a0 = AVG(people_2.age)
r1:
  scan people, unit id
  inner join
    given value: from earlier releases, SELECT (SELECT r0.a0 AS avg(age) FROM r0) AS value
  filter age > value
  a0 = COUNT(*)
post:
  SELECT
    "r1"."a0" AS "count_star()"
  FROM "r1"
----
-- a noisy value by cross join
SELECT COUNT(*) FROM people CROSS JOIN (SELECT AVG(age) AS mean FROM people) WHERE age > mean

r0:
  scan people, unit id
  a0 = AVG(people_2.age)
r1:
  scan people, unit id
  inner join on age > mean
    given mean: from earlier releases, SELECT r0.a0 AS mean FROM r0
  a0 = COUNT(*)
post:
  SELECT
    "r1"."a0" AS "count_star()"
  FROM "r1"
----
-- groups of one unit
SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM visits GROUP BY id)

r0:
  scan visits, unit id
  group by unit id: value = COUNT(*)
  a0 = AVG(subquery.n)
post:
  SELECT
    "r0"."a0" AS "avg(n)"
  FROM "r0"
----
-- groups of a key that leads to one unit
SELECT SUM(n) FROM (SELECT order_id, COUNT(*) AS n FROM items GROUP BY order_id HAVING COUNT(*) > 2)

r0:
  scan items, unit privacy unit
  group by unit privacy unit, order_id: value = COUNT(*)
  filter value > 2
  a0 = SUM(subquery.n)
post:
  SELECT
    "r0"."a0" AS "sum(n)"
  FROM "r0"
----
-- the unit is added to a group
SELECT COUNT(*) FROM (SELECT order_id, kind, MAX(id) AS m FROM orders GROUP BY order_id, kind) WHERE m > 3

r0:
  scan orders, unit id
  group by unit id, order_id, kind: value = MAX(id)
  filter value > 3
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- distinct rows of a unit
SELECT age, COUNT(*) FROM (SELECT DISTINCT id, age FROM visits) GROUP BY age

r0:
  scan visits, unit id
  group by unit id, age
  key k0 = age
  a0 = COUNT(*)
post:
  SELECT
    "r0"."k0" AS "age",
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- a window within a unit
SELECT COUNT(*) FROM (SELECT age - LAG(age) OVER (PARTITION BY id ORDER BY age) AS gap FROM visits) WHERE gap > 1

r0:
  scan visits, unit id
  window window = LAG(age) OVER (PARTITION BY id ORDER BY age)
  filter age - window > 1
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- a named window, filtered
SELECT SUM(age) FROM (SELECT age FROM visits QUALIFY ROW_NUMBER() OVER w = 1 WINDOW w AS (PARTITION BY id ORDER BY age DESC))

r0:
  scan visits, unit id
  window window = ROW_NUMBER() OVER (PARTITION BY id ORDER BY age DESC)
  filter window = 1
  a0 = SUM(subquery.age)
post:
  SELECT
    "r0"."a0" AS "sum(age)"
  FROM "r0"
----
-- union all
SELECT COUNT(*) FROM (SELECT id, age FROM people UNION ALL SELECT id, age FROM visits)

r0:
  union all
    scan people, unit id
    columns privacy unit = id, id, age
    scan visits, unit id
    columns privacy unit = id, id, age
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- union of units
SELECT COUNT(*) FROM (SELECT id FROM people UNION SELECT id FROM visits)

r0:
  union all
    scan people, unit id
    columns privacy unit = id, id
    scan visits, unit id
    columns privacy unit = id, id
  group by unit privacy unit, id
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- intersect of units
SELECT COUNT(*) FROM (SELECT id FROM people INTERSECT SELECT id FROM visits)

r0:
  scan people, unit id
  group by unit id
  mark mark: on id = id_2 (units) and id IS NOT DISTINCT FROM id_2
    scan visits, unit id_2 (id_2 = id)
  filter mark
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- except of units
SELECT COUNT(*) FROM (SELECT id FROM people EXCEPT SELECT id FROM visits WHERE age > 3)

r0:
  scan people, unit id
  group by unit id
  mark mark: on id = id_2 (units) and id IS NOT DISTINCT FROM id_2
    scan visits, unit id
    filter age > 3
    columns id_2 = id, age
  filter NOT mark
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- a value of the unit's own rows
SELECT AVG((SELECT COUNT(*) FROM visits v WHERE v.id = p.id)) FROM people p

r0:
  scan people, unit id
  left join on id = id_2 (units)
    scan visits, unit id
    group by unit id: value = COUNT(*)
    columns id_2 = id, value
  a0 = AVG((SELECT COUNT(*) AS count_star() FROM visits AS v WHERE v.id = p.id))
post:
  SELECT
    "r0"."a0" AS "avg((select count(*) from visits as v where v.id = p.id))"
  FROM "r0"
----
-- correlated from a public table
SELECT label, (SELECT COUNT(*) FROM people WHERE people.code = codes.code) FROM codes

r0:
  scan people, unit id
  inner join on code = outer0
    given outer0: public, SELECT DISTINCT codes.code AS outer0 FROM codes AS codes
  key k0 = outer0
  a0 = COUNT(*)
post:
  SELECT
    "codes"."label" AS "label",
    (
      SELECT
        COALESCE(ANY_VALUE("r0"."a0"), 0) AS "count_star()"
      FROM "r0"
      WHERE
        "r0"."k0" = "codes"."code"
    ) AS "(select count(*) from people where people.code = codes.code)"
  FROM "codes" AS "codes"
----
-- the unit by name
SELECT COUNT(*) FROM people WHERE PRIVACY_UNIT() = 77

r0:
  scan people, unit id
  filter id = 77
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- one release, however it is reached
WITH j AS (SELECT people.age FROM people JOIN visits USING (id)) SELECT (SELECT COUNT(*) FROM j) + (SELECT COUNT(*) FROM j)

r0:
  scan people, unit id
  inner join on id = id_2 (units)
    scan visits, unit id_2 (id_2 = id, age_2 = age)
  a0 = COUNT(*)
post:
  SELECT
    (
      SELECT
        "r0"."a0" AS "count_star()"
      FROM "r0"
    ) + (
      SELECT
        "r0"."a0" AS "count_star()"
      FROM "r0"
    ) AS "(select count(*) from j) + (select count(*) from j)"
----
-- a semi-join by name
SELECT COUNT(*) FROM people SEMI JOIN visits USING (id)

r0:
  scan people, unit id
  mark mark: on id = id_2 (units)
    scan visits, unit id_2 (id_2 = id, age_2 = age)
  filter mark
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
----
-- pairs in rows of the unit
SELECT COUNT(*) FROM people WHERE (id, age) IN (SELECT id, age FROM visits)

r0:
  scan people, unit id
  mark mark: on id = id_2 (units) and age = age_2
    scan visits, unit id_2 (id_2 = id, age_2 = age)
  filter mark
  a0 = COUNT(*)
post:
  SELECT
    "r0"."a0" AS "count_star()"
  FROM "r0"
