-- several values are one row of them, and none may be NULL
SELECT COUNT(DISTINCT a, b) FROM t

SELECT COUNT(DISTINCT (a, b)) FILTER(WHERE NOT ((a) IS NULL) AND NOT ((b) IS NULL)) FROM t
----
-- a filter stays
SELECT COUNT(DISTINCT a, b + 1) FILTER (WHERE c > 1) FROM t

SELECT COUNT(DISTINCT (a, b + 1)) FILTER(WHERE (NOT ((a) IS NULL) AND NOT ((b + 1) IS NULL)) AND c > 1) FROM t
----
-- one value stays as it is, and so does a row
SELECT COUNT(DISTINCT a), COUNT(DISTINCT (a, b)), COUNT(*) FILTER (WHERE c) FROM t

SELECT COUNT(DISTINCT a), COUNT(DISTINCT (a, b)), COUNT(*) FILTER(WHERE c) FROM t
----
-- in a subquery
SELECT n FROM (SELECT COUNT(DISTINCT a, b) AS n FROM t) AS q

SELECT n FROM (SELECT COUNT(DISTINCT (a, b)) FILTER(WHERE NOT ((a) IS NULL) AND NOT ((b) IS NULL)) AS n FROM t) AS q
