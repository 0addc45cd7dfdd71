-- A report: three statements with one price. What the first two share (counts by education) is measured once.
SELECT education, COUNT(*) AS people FROM people GROUP BY education ORDER BY people DESC;
SELECT education, COUNT(*) AS people, AVG(hours_per_week) AS hours FROM people GROUP BY education HAVING COUNT(*) > 1000;
SELECT COUNT(*) AS rich FROM people WHERE income = '>50K';
