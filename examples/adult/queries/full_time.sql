FROM people
SELECT CASE WHEN hours_per_week >= 40 THEN 'full time' ELSE 'part time' END AS job,
       COUNT(*) AS people, AVG(age) AS age, AVG(education_num) AS school_years
GROUP BY job
HAVING COUNT(*) > 100
