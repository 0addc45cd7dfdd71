-- the parser spells out that NULLs are ignored
SELECT ANY_VALUE(a) FROM t

SELECT ANY_VALUE(a) FROM t
----
-- with a filter, and within an expression
SELECT 1 + ANY_VALUE(a) FILTER (WHERE b > 0) FROM t

SELECT 1 + ANY_VALUE(a) FILTER(WHERE b > 0) FROM t
----
-- as a window
SELECT ANY_VALUE(a) OVER (ORDER BY b) FROM t

SELECT ANY_VALUE(a) OVER (ORDER BY b NULLS LAST) FROM t
----
-- other functions keep it
SELECT LAST_VALUE(a IGNORE NULLS) OVER (ORDER BY b) FROM t

SELECT LAST_VALUE(a) IGNORE NULLS OVER (ORDER BY b NULLS LAST) FROM t
