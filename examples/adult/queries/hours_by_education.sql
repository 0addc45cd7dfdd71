-- Working hours by education, the longest first.
SELECT education, COUNT(*) AS people, AVG(hours_per_week) AS hours
FROM people
GROUP BY education
ORDER BY hours DESC
