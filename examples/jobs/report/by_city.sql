-- Visits and their length by city, up to a day.
-- output = "by_city-{date}.parquet"
-- params.date = "date"
SELECT city, COUNT(*) AS visits, AVG(minutes) AS minutes
FROM visits
WHERE day <= {date}
GROUP BY city
