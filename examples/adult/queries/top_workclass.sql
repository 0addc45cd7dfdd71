-- A CTE over a private table, ranked and cut off on noisy values alone.
WITH by_class AS (
    SELECT workclass, COUNT(*) AS people, SUM(capital_gain - capital_loss) AS net_gain
    FROM people
    GROUP BY workclass
)
SELECT *, RANK() OVER (ORDER BY people DESC) AS place
FROM by_class
QUALIFY place <= 3
ORDER BY place
