-- joins in parentheses come one after the other
SELECT * FROM (a JOIN b ON a.x = b.x) JOIN c ON b.y = c.y

SELECT * FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y
----
-- parentheses around one table
SELECT * FROM (a) JOIN (b AS d) ON a.x = d.x

SELECT * FROM a JOIN b AS d ON a.x = d.x
----
-- a name outside of them
SELECT * FROM (a) AS d

SELECT * FROM a AS d
----
-- in each other
SELECT * FROM ((a JOIN b USING (x)) LEFT JOIN c USING (x)) JOIN d USING (x)

SELECT * FROM a JOIN b USING (x) LEFT JOIN c USING (x) JOIN d USING (x)
----
-- on the right of an inner join its condition moves to WHERE
SELECT * FROM a JOIN (b JOIN c ON b.y = c.y) ON a.x = b.x WHERE a.z > 1

SELECT * FROM a, b JOIN c ON b.y = c.y WHERE a.z > 1 AND a.x = b.x
----
-- on the right of a comma
SELECT * FROM a, (b JOIN c ON b.y = c.y)

SELECT * FROM a, b JOIN c ON b.y = c.y
----
-- in a subquery and in a CTE
WITH q AS (SELECT * FROM (a JOIN b USING (x))) SELECT (SELECT MAX(y) FROM (c)) AS most FROM q

WITH q AS (SELECT * FROM a JOIN b USING (x)) SELECT (SELECT MAX(y) FROM c) AS most FROM q
----
-- what is done to them in parentheses stays for bind
SELECT * FROM (a) PIVOT (COUNT(*) FOR x IN (1, 2)) CROSS JOIN (b) TABLESAMPLE (10 PERCENT)

SELECT * FROM (a) PIVOT(COUNT(*) FOR x IN (1, 2)) CROSS JOIN (b) TABLESAMPLE SYSTEM (10 PERCENT)
----
-- flat joins and subqueries stay
SELECT * FROM a JOIN b ON a.x = b.x, (SELECT 1 AS y) AS c

SELECT * FROM a JOIN b ON a.x = b.x, (SELECT 1 AS y) AS c
