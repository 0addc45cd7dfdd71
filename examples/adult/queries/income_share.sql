-- The share of people above 50K by sex and decade of age: arithmetic over two counts is free post-processing.
SELECT sex, age // 10 * 10 AS decade,
       100.0 * COUNT(*) FILTER (WHERE income = '>50K') / COUNT(*) AS percent
FROM people
WHERE age < 80
GROUP BY ALL
ORDER BY ALL
