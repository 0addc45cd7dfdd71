-- an expression is called what was written
SELECT a + 1, UPPER(b) FROM t

SELECT a + 1 AS "a + 1", UPPER(b) AS "upper(b)" FROM t
----
-- columns and aliases have names
SELECT a, t.b, a + 1 AS c FROM t

SELECT a, t.b, a + 1 AS c FROM t
----
-- COUNT(*) is called as in DuckDB
SELECT COUNT(*), COUNT(a) FROM t

SELECT COUNT(*) AS "count_star()", COUNT(a) AS "count(a)" FROM t
----
-- what stands for several columns waits for them
SELECT *, t.*, COLUMNS('^a') + 1 FROM t

SELECT *, t.*, COLUMNS('^a') + 1 FROM t
----
-- a subquery's own outputs don't change its name outside
SELECT (SELECT MAX(a) FROM t), (SELECT 1)

SELECT (SELECT MAX(a) AS "max(a)" FROM t) AS "(select max(a) from t)", (SELECT 1 AS "1") AS "(select 1)"
----
-- in a CTE, in FROM, and on both sides of a UNION
WITH c AS (SELECT a + 1 FROM t) SELECT 1 FROM (SELECT a - 1 FROM c) UNION ALL SELECT a * 2 FROM t

WITH c AS (SELECT a + 1 AS "a + 1" FROM t) SELECT 1 AS "1" FROM (SELECT a - 1 AS "a - 1" FROM c) UNION ALL SELECT a * 2 AS "a * 2" FROM t
----
-- quotes in a name
SELECT "A b" || 'x' FROM t

SELECT "A b" || 'x' AS """a b"" || 'x'" FROM t
