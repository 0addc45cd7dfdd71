-- the value comes first
SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x) FROM t

SELECT QUANTILE_CONT(x, 0.9) FROM t
----
-- a descending order counts from the top
SELECT PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY x DESC) FROM t

SELECT QUANTILE_DISC(x, 0.1) FROM t
----
-- each share of a list does
SELECT PERCENTILE_CONT([0.1, 0.5]) WITHIN GROUP (ORDER BY x DESC) FROM t

SELECT QUANTILE_CONT(x, [0.9, 0.5]) FROM t
----
-- an order inside the call is one as well
SELECT QUANTILE_CONT(x, 0.3 ORDER BY x DESC) FROM t

SELECT QUANTILE_CONT(x, 0.7) FROM t
----
-- the most frequent value has no share
SELECT MODE() WITHIN GROUP (ORDER BY x) FROM t

SELECT MODE(x) FROM t
----
-- with a filter, over an expression, in a subquery
SELECT (SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x + 1) FILTER (WHERE x > 0) FROM t)

SELECT (SELECT QUANTILE_CONT(x + 1, 0.5) FILTER(WHERE x > 0) FROM t)
----
-- one aggregate inside the order of another
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY (SELECT MODE() WITHIN GROUP (ORDER BY y) FROM u)) FROM t

SELECT QUANTILE_CONT((SELECT MODE(y) FROM u), 0.5) FROM t
----
-- a share that is no number stays for the message about it
SELECT PERCENTILE_CONT(s) WITHIN GROUP (ORDER BY x DESC) FROM t

SELECT QUANTILE_CONT(x, s) FROM t
----
-- the plain form stays
SELECT QUANTILE_CONT(x, 0.9), MEDIAN(y) FROM t ORDER BY x DESC

SELECT QUANTILE_CONT(x, 0.9), MEDIAN(y) FROM t ORDER BY x DESC
