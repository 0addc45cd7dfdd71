-- the time between two moments, in microseconds
SELECT COUNT(*) FROM t WHERE ended - started > INTERVAL 30 MINUTE

SELECT COUNT(*) FROM t WHERE DATE_DIFF('MICROSECOND', (started), (ended)) > 1800000000
----
-- the other way round, in other words
SELECT COUNT(*) FROM t WHERE INTERVAL '2' HOURS <= (ended - started)

SELECT COUNT(*) FROM t WHERE 7200000000 <= DATE_DIFF('MICROSECOND', (started), (ended))
----
-- equal, or not
SELECT COUNT(*) FROM t WHERE ended - started = INTERVAL 1 DAY OR ended - started <> INTERVAL 1 WEEK

SELECT COUNT(*) FROM t WHERE DATE_DIFF('MICROSECOND', (started), (ended)) = 86400000000 OR DATE_DIFF('MICROSECOND', (started), (ended)) <> 604800000000
----
-- months have no length
SELECT COUNT(*) FROM t WHERE ended - started < INTERVAL 2 MONTH

SELECT COUNT(*) FROM t WHERE ended - started < INTERVAL '2' MONTH
----
-- a moment before or after another is no length
SELECT COUNT(*) FROM t WHERE ended - INTERVAL 30 MINUTE > started

SELECT COUNT(*) FROM t WHERE ended - INTERVAL '30' MINUTE > started
----
-- numbers stay
SELECT COUNT(*) FROM t WHERE a - b > 30

SELECT COUNT(*) FROM t WHERE a - b > 30
----
-- a length that no number holds stays
SELECT COUNT(*) FROM t WHERE ended - started > INTERVAL 99999999999 WEEK

SELECT COUNT(*) FROM t WHERE ended - started > INTERVAL '99999999999' WEEK
----
-- inside of a CASE, over expressions
SELECT CASE WHEN LEAST(ended, seen) - (started + INTERVAL 1 DAY) < INTERVAL 5 SECOND THEN 1 END AS fast FROM t

SELECT CASE WHEN DATE_DIFF('MICROSECOND', ((started + INTERVAL '1' DAY)), (LEAST(ended, seen))) < 5000000 THEN 1 END AS fast FROM t
