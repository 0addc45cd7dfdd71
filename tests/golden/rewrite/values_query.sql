-- as a scalar
SELECT (VALUES (1)) AS one

SELECT (SELECT * FROM (VALUES (1)) AS v) AS one
----
-- after IN, in parentheses of its own
SELECT a IN ((VALUES (1), (2))) AS small FROM t

SELECT a IN ((SELECT * FROM (VALUES (1), (2)) AS v)) AS small FROM t
----
-- beside a UNION the parser has done it
SELECT a FROM t UNION ALL (VALUES (1), (2))

SELECT a FROM t UNION ALL (SELECT * FROM (VALUES (1), (2)) AS _values)
----
-- LATERAL
SELECT * FROM t, LATERAL (VALUES (1)) AS v(x)

SELECT * FROM t, LATERAL (SELECT * FROM (VALUES (1)) AS v) AS v(x)
----
-- rows in FROM stay
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, c)

SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, c)
----
-- EXISTS takes a query, and bind says so
SELECT EXISTS (VALUES (1)) AS found

SELECT EXISTS(VALUES (1)) AS found
