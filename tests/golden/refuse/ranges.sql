-- sum without a range
SELECT SUM(debt) FROM people

PrivacyError needs-range at 1:12+4
error: SUM needs a range for people.debt
   1 | SELECT SUM(debt) FROM people
     |            ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: SUM(CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- average without a range
SELECT region, AVG(debt) FROM people GROUP BY region

PrivacyError needs-range at 1:20+4
error: AVG needs a range for people.debt
   1 | SELECT region, AVG(debt) FROM people GROUP BY region
     |                    ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: AVG(CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- expression without a range
SELECT SUM(age * debt) FROM people

PrivacyError needs-range at 1:18+4
error: SUM needs a range for age * debt: debt has none
   1 | SELECT SUM(age * debt) FROM people
     |                  ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: SUM(age * CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- range lost by a division
SELECT SUM(1.0 / height) + SUM(1 / age) FROM people

PrivacyError needs-range at 1:32+7
error: SUM needs a range for 1 / age: it has no upper end
   1 | SELECT SUM(1.0 / height) + SUM(1 / age) FROM people
     |                                ^^^^^^^
help: keep the divisor, which can be 0, away from it: 1 / GREATEST(age, 1)
      or clip it in the query: SUM(CLIP(1 / age, low, high)), where low and high are the least and the greatest value that you expect
----
-- range on one side only
SELECT SUM(debt) FROM people WHERE debt > 0

PrivacyError needs-range at 1:12+4
error: SUM needs a range for people.debt: it has no upper end
   1 | SELECT SUM(debt) FROM people WHERE debt > 0
     |            ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = 0, max = high }
      or clip it in the query: SUM(CLIP(debt, 0, high)), where high is the greatest value that you expect
----
-- length of text
SELECT SUM(LENGTH(name)) FROM people

PrivacyError needs-range at 1:12+12
error: SUM needs a range for LENGTH(name): it has no upper end
   1 | SELECT SUM(LENGTH(name)) FROM people
     |            ^^^^^^^^^^^^
help: clip it in the query: SUM(CLIP(LENGTH(name), 0, high)), where high is the greatest value that you expect
----
-- cast from text
SELECT SUM(TRY_CAST(name AS DOUBLE)) FROM people

PrivacyError needs-range at 1:12+24
error: SUM needs a range for TRY_CAST(name AS DOUBLE)
   1 | SELECT SUM(TRY_CAST(name AS DOUBLE)) FROM people
     |            ^^^^^^^^^^^^^^^^^^^^^^^^
help: clip it in the query: SUM(CLIP(TRY_CAST(name AS DOUBLE), low, high)), where low and high are the least and the greatest value that you expect
----
-- a type alone is no range
SELECT SUM(id) FROM people

PrivacyError needs-range at 1:12+2
error: SUM needs a range for people.id
   1 | SELECT SUM(id) FROM people
     |            ^^
help: give id a min and a max in the policy: [tables.people.columns] id = { min = low, max = high }
      or clip it in the query: SUM(CLIP(id, low, high)), where low and high are the least and the greatest value that you expect
----
-- CASE that lets one branch out
SELECT SUM(CASE WHEN age > 5 THEN age ELSE debt END) FROM people

PrivacyError needs-range at 1:44+4
error: SUM needs a range for CASE WHEN age > 5 THEN age ELSE debt END: debt has none
   1 | SELECT SUM(CASE WHEN age > 5 THEN age ELSE debt END) FROM people
     |                                            ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: SUM(CASE WHEN age > 5 THEN age ELSE CLIP(debt, low, high) END), where low and high are the least and the greatest value that you expect
----
-- FILTER doesn't bound
SELECT SUM(debt) FILTER (WHERE member) FROM people

PrivacyError needs-range at 1:12+4
error: SUM needs a range for people.debt
   1 | SELECT SUM(debt) FILTER (WHERE member) FROM people
     |            ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: SUM(CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- sum of text
SELECT SUM(name) FROM people

SQLError type at 1:12+4
error: SUM takes a number, not VARCHAR
   1 | SELECT SUM(name) FROM people
     |            ^^^^
help: write SUM(CLIP(TRY_CAST(name AS DOUBLE), low, high)), where low and high are the least and the greatest value that you expect
----
-- average of booleans
SELECT AVG(member) FROM people

SQLError type at 1:12+6
error: AVG takes a number, not BOOLEAN
   1 | SELECT AVG(member) FROM people
     |            ^^^^^^
help: write AVG(CAST(member AS INTEGER))
----
-- average of a comparison
SELECT AVG(age > 5) FROM people

SQLError type at 1:12+7
error: AVG takes a number, not BOOLEAN
   1 | SELECT AVG(age > 5) FROM people
     |            ^^^^^^^
help: write AVG(CAST(age > 5 AS INTEGER))
----
-- average of dates
SELECT AVG(born) FROM people

SQLError type at 1:12+4
error: AVG takes a number, not DATE
   1 | SELECT AVG(born) FROM people
     |            ^^^^
help: dates give numbers through YEAR(born) or DATE_DIFF('day', DATE '2000-01-01', born)
----
-- on a later line
SELECT region,
       SUM(debt) AS total
FROM people
GROUP BY region

PrivacyError needs-range at 2:12+4
error: SUM needs a range for people.debt
   2 |        SUM(debt) AS total
     |            ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: SUM(CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- two columns without a range
SELECT SUM(debt + id) FROM people

PrivacyError needs-range at 1:12+9
error: SUM needs a range for debt + id
   1 | SELECT SUM(debt + id) FROM people
     |            ^^^^^^^^^
help: give debt and id a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high } and id = { min = low, max = high }
      or clip it in the query: SUM(CLIP(debt + id, low, high)), where low and high are the least and the greatest value that you expect
----
-- a column without a range as a divisor
SELECT AVG(age / debt) FROM people

PrivacyError needs-range at 1:12+10
error: AVG needs a range for age / debt
   1 | SELECT AVG(age / debt) FROM people
     |            ^^^^^^^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }, with low above 0
      or keep the divisor, which can be 0, away from it: age / GREATEST(debt, 1)
      or clip it in the query: AVG(CLIP(age / debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- sum of a list
SELECT SUM(tags) FROM people

SQLError type at 1:12+4
error: SUM takes a number, not VARCHAR[]
   1 | SELECT SUM(tags) FROM people
     |            ^^^^
help: only IS NULL and COUNT work on VARCHAR[]
----
-- a tangent has no range
SELECT SUM(TAN(age)) FROM people

PrivacyError needs-range at 1:12+8
error: SUM needs a range for TAN(age)
   1 | SELECT SUM(TAN(age)) FROM people
     |            ^^^^^^^^
help: clip it in the query: SUM(CLIP(TAN(age), low, high)), where low and high are the least and the greatest value that you expect
----
-- the part without a range is named
SELECT SUM(age * SIN(debt) + debt / 2) FROM people

PrivacyError needs-range at 1:22+4
error: SUM needs a range for age * SIN(debt) + debt / 2: debt has none
   1 | SELECT SUM(age * SIN(debt) + debt / 2) FROM people
     |                      ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: SUM(age * SIN(CLIP(debt, low, high)) + CLIP(debt, low, high) / 2), where low and high are the least and the greatest value that you expect
----
-- a length has no upper end
SELECT SUM(LENGTH(name) * 2) FROM people

PrivacyError needs-range at 1:12+12
error: SUM needs a range for LENGTH(name) * 2: LENGTH(name) has none
   1 | SELECT SUM(LENGTH(name) * 2) FROM people
     |            ^^^^^^^^^^^^
help: clip it in the query: SUM(CLIP(LENGTH(name), 0, high) * 2), where high is the greatest value that you expect
----
-- a value that is answered first has no range
SELECT AVG(age - (SELECT AVG(age) FROM people)) FROM people

PrivacyError needs-range at 1:12+35
error: AVG needs a range for age - (SELECT AVG(age) AS "avg(age)" FROM people AS people_…
   1 | SELECT AVG(age - (SELECT AVG(age) FROM people)) FROM people
     |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: clip it in the query: AVG(CLIP(age - (SELECT AVG(age) AS "avg(age)" FROM people AS people_2), low, high)), where low and high are the least and the greatest value that you expect
