-- ROLLUP leaves keys out from the right
SELECT a, b, COUNT(*) FROM t GROUP BY ROLLUP (a, b)

SELECT a, b, COUNT(*) FROM t GROUP BY GROUPING SETS ((a, b), (a), ())
----
-- CUBE has every set, the finest first
SELECT a, b, COUNT(*) FROM t GROUP BY CUBE (a, b)

SELECT a, b, COUNT(*) FROM t GROUP BY GROUPING SETS ((a, b), (a), (b), ())
----
-- several elements: every set with every other
SELECT COUNT(*) FROM t GROUP BY a, ROLLUP (b), GROUPING SETS (c, ())

SELECT COUNT(*) FROM t GROUP BY GROUPING SETS ((a, b, c), (a, b), (a, c), (a))
----
-- keys that come and go together
SELECT COUNT(*) FROM t GROUP BY ROLLUP (a, (b, c))

SELECT COUNT(*) FROM t GROUP BY GROUPING SETS ((a, b, c), (a), ())
----
-- one in the other
SELECT COUNT(*) FROM t GROUP BY GROUPING SETS (ROLLUP (a, b), CUBE (c), (a), GROUPING SETS (b, ()))

SELECT COUNT(*) FROM t GROUP BY GROUPING SETS ((a, b), (a), (), (c), (), (a), (b), ())
----
-- parentheses around several keys are one set
SELECT COUNT(*) FROM t GROUP BY (a, b)

SELECT COUNT(*) FROM t GROUP BY GROUPING SETS ((a, b))
----
-- numbers and expressions
SELECT a + 1, COUNT(*) FROM t GROUP BY ROLLUP (1, UPPER(b))

SELECT a + 1, COUNT(*) FROM t GROUP BY GROUPING SETS ((1, UPPER(b)), (1), ())
----
-- plain keys stay
SELECT a, COUNT(*) FROM t GROUP BY a, (b)

SELECT a, COUNT(*) FROM t GROUP BY a, (b)
----
-- GROUP BY ALL waits for the outputs
SELECT a, COUNT(*) FROM t GROUP BY ALL

SELECT a, COUNT(*) FROM t GROUP BY ALL
----
-- the keys of a PIVOT are outputs as well
SELECT * FROM t PIVOT (COUNT(*) FOR a IN (1, 2) GROUP BY (b, c))

SELECT * FROM t PIVOT(COUNT(*) FOR a IN (1, 2) GROUP BY (b, c))
