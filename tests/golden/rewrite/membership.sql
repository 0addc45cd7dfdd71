-- pairs are compared one by one, and NULLs are equal inside of them
SELECT COUNT(*) FROM t WHERE (a, b) IN ((1, 2), (3, 4))

SELECT COUNT(*) FROM t WHERE (((a) IS NOT DISTINCT FROM (1) AND (b) IS NOT DISTINCT FROM (2)) OR ((a) IS NOT DISTINCT FROM (3) AND (b) IS NOT DISTINCT FROM (4)))
----
-- not one of the pairs
SELECT COUNT(*) FROM t WHERE (a, b) NOT IN ((1, 2))

SELECT COUNT(*) FROM t WHERE NOT ((a) IS NOT DISTINCT FROM (1) AND (b) IS NOT DISTINCT FROM (2))
----
-- a list of VALUES
SELECT COUNT(*) FROM t WHERE a IN (VALUES (1), (2))

SELECT COUNT(*) FROM t WHERE a IN (1, 2)
----
-- VALUES that are pairs: a query's rows, where a NULL is unknown
SELECT COUNT(*) FROM t WHERE (a, b) IN (VALUES (1, 2), (3, 4))

SELECT COUNT(*) FROM t WHERE (((a) = (1) AND (b) = (2)) OR ((a) = (3) AND (b) = (4)))
----
-- = ANY is IN
SELECT COUNT(*) FROM t WHERE a = ANY (SELECT z FROM u)

SELECT COUNT(*) FROM t WHERE a IN (SELECT z FROM u)
----
-- <> ALL is NOT IN
SELECT COUNT(*) FROM t WHERE a <> ALL (SELECT z FROM u)

SELECT COUNT(*) FROM t WHERE NOT a IN (SELECT z FROM u)
----
-- other comparisons with ANY and ALL stay
SELECT COUNT(*) FROM t WHERE a > ANY (SELECT z FROM u) AND a = ALL (SELECT z FROM u)

SELECT COUNT(*) FROM t WHERE a > ANY (SELECT z FROM u) AND a = ALL (SELECT z FROM u)
----
-- one test inside another
SELECT COUNT(*) FROM t WHERE (a, b) IN ((1, (a, b) IN ((2, 3))))

SELECT COUNT(*) FROM t WHERE ((a) IS NOT DISTINCT FROM (1) AND (b) IS NOT DISTINCT FROM (((a) IS NOT DISTINCT FROM (2) AND (b) IS NOT DISTINCT FROM (3))))
----
-- a plain IN stays, of values and of a subquery
SELECT COUNT(*) FROM t WHERE a IN (1, 2) OR a IN (SELECT z FROM u)

SELECT COUNT(*) FROM t WHERE a IN (1, 2) OR a IN (SELECT z FROM u)
----
-- in an output, and in GROUP BY
SELECT a IN (VALUES (1)) AS one FROM t GROUP BY a IN (VALUES (1))

SELECT a IN (1) AS one FROM t GROUP BY a IN (1)
----
-- the values of a PIVOT are no test
SELECT * FROM t PIVOT (COUNT(*) FOR (a, b) IN ((1, 2), (3, 4)))

SELECT * FROM t PIVOT(COUNT(*) FOR (a, b) IN ((1, 2), (3, 4)))
