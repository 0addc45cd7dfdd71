-- output = "long-{date}.csv"
-- params.date = "date"
-- params.longer = { type = "integer", default = 45 }
SELECT COUNT(*) AS long_visits FROM visits WHERE day <= {date} AND minutes > {longer}
