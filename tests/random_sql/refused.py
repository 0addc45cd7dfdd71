"""Queries that must not be answered, that no version promises to answer, and texts that are no SQL."""

from __future__ import annotations

import re

from random_sql.releases import Releases
from random_sql.written import Query, render


class Refused(Releases):
    """Writes what tries to break something."""

    def hostile(self) -> Query:
        """Shapes that mix people, read rows, or reach outside: always refused."""
        c = self.condition(self.base("users", "a").cols)
        sql = self.pick(
            "SELECT * FROM users",
            f"SELECT a.name, a.age FROM users AS a WHERE {c}",
            f"SELECT COUNT(*) FROM users AS a JOIN users AS b ON a.age = b.age WHERE {c}",
            "SELECT COUNT(*) FROM users AS a JOIN orders AS b ON a.uid = b.uid + 1",
            "SELECT COUNT(*) FROM users AS a JOIN orders AS b ON a.uid = b.uid OR a.vip",
            "SELECT COUNT(*) FROM users AS a CROSS JOIN orders AS b",
            "SELECT COUNT(*) FROM users AS a, orders AS b",
            "SELECT COUNT(*) FROM users AS a FULL JOIN orders AS b ON a.uid = b.uid",
            "SELECT COUNT(*) FROM cities AS c LEFT JOIN users AS u ON c.city = u.city",
            "SELECT COUNT(*) FROM orders AS a JOIN (SELECT 1 AS uid) AS b USING (uid) JOIN users AS d ON d.age = b.uid",
            "SELECT COUNT(*) FROM (SELECT * FROM users LIMIT 5) AS q",
            "SELECT COUNT(*) FROM users USING SAMPLE 10%",
            "SELECT COUNT(*) FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY score) AS n FROM users) AS q WHERE n < 5",
            "SELECT COUNT(*) FROM (SELECT age, NTILE(4) OVER (PARTITION BY city ORDER BY age) AS n FROM users) AS q",
            "SELECT COUNT(*) FROM users WHERE EXISTS (SELECT 1 FROM orders WHERE amount > 400)",
            "SELECT COUNT(*) FROM users AS u WHERE u.age IN (SELECT b.age FROM users AS b WHERE b.uid <> u.uid)",
            "SELECT COUNT(*) FROM users WHERE age = (SELECT age FROM users WHERE uid = 3)",
            "SELECT uid, COUNT(*) FROM (SELECT 1 AS uid, age FROM users) AS q GROUP BY uid, age, RANDOM()",
            "SELECT SUM(RANDOM()) FROM users",
            "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
            "SELECT COUNT(*) FROM '/etc/passwd'",
            "SELECT COUNT(*) FROM duckdb_tables()",
            "SELECT COUNT(*) FROM users WHERE error(name) IS NULL",
            "SELECT SUM(GETVARIABLE('x')) FROM users",
            "SELECT LIST(age) FROM users",
            "SELECT STRING_AGG(name, ',') FROM users",
            "SELECT ANY_VALUE(name) FROM users",
            "SELECT SUM(name) FROM users",
            "SELECT COUNT(*) FROM survey AS a JOIN survey AS b ON a.answer = b.answer",
            "SELECT COUNT(*) FROM (SELECT uid FROM users UNION ALL SELECT pop FROM cities) AS q",
            "SELECT SUM(age) FROM (SELECT uid, age FROM users EXCEPT SELECT age, uid FROM users) AS q",
            "SELECT COUNT(*) FROM users WHERE uid IN (SELECT age FROM users)",
            "SELECT COUNT(*) FROM users AS u WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.uid <> u.uid)",
            "SELECT COUNT(*) FROM users AS u WHERE age > (SELECT MAX(o.amount) FROM orders AS o WHERE o.uid > u.uid)",
            "SELECT COUNT(*) FROM (SELECT LAG(age) OVER (PARTITION BY vip ORDER BY uid) AS n FROM users) AS q",
            "SELECT uid, COUNT(*) FROM orders GROUP BY uid",
            "SELECT DISTINCT uid, kind FROM orders",
            "SELECT COUNT(*) FROM survey AS s JOIN users AS u ON s.answer = u.age",
            "SELECT COUNT(*) FROM (SELECT age FROM users UNION ALL SELECT answer FROM survey) AS q",
            "SELECT COUNT(*) FROM items AS a JOIN items AS b ON a.sku = b.sku",
            "SELECT COUNT(*) FROM (SELECT uid, oid + 0 AS oid FROM orders) AS o JOIN items AS i ON o.oid = i.oid",
            "SELECT COUNT(*) FROM users; SELECT 1",
            "DELETE FROM users",
            "SUMMARIZE users",
            "SUMMARIZE SELECT * FROM users",
            "EXPLAIN ANALYZE SELECT COUNT(*) FROM users",
            "SELECT COUNT(*), (SELECT MAX(age) FROM users AS b WHERE b.city = 'rome' LIMIT 1) FROM nobody",
            "WITH RECURSIVE t AS (SELECT uid FROM users UNION ALL SELECT uid + 1 FROM t) SELECT COUNT(*) FROM t",
        )  # fmt: skip
        return Query(sql, sql, sql, (), frozenset({"hostile"}), expect="refused")

    def unsupported(self) -> Query:
        """Shapes that some version may learn: refused, or answered as the contract says; never a crash."""
        rows = self.rows(1)
        x = self.integer(rows.cols, 1)
        sql = self.pick(
            f"SELECT MIN({x}), MAX({x}) {rows.body()}",
            f"SELECT MEDIAN({x}) {rows.body()}",
            f"SELECT QUANTILE_CONT({x}, 0.25) {rows.body()}",
            f"SELECT COUNT(DISTINCT {x}) {rows.body()}",
            f"SELECT MODE({x}) {rows.body()}",
            f"SELECT APPROX_COUNT_DISTINCT({x}) {rows.body()}",
            f"SELECT SUM(DISTINCT {x}) {rows.body()}",
            f"SELECT CORR({x}, {self.integer(rows.cols, 1)}) {rows.body()}",
            f"SELECT COUNT(*) AS n {rows.body()} GROUP BY {x} ORDER BY n DESC LIMIT 1 WITH TIES",
            f"SELECT COUNT(*) OVER () {rows.body()}",
            f"SELECT {x}, COUNT(*) {rows.body()} GROUP BY {x} UNION BY NAME SELECT 1 AS n",
            f"SELECT ({x}, COUNT(*)) {rows.body()} GROUP BY {x}",
            f"FROM (SELECT {x} AS x {rows.body()}) SELECT COUNT(*)",
            f"SELECT COUNT(*) FROM (SELECT DISTINCT ON ({x}) {x} AS x {rows.body()}) AS q",
            f"SELECT BOOL_OR({self.boolean(rows.cols, 1)}), PRODUCT({x}) {rows.body()}",
            f"SELECT COLUMNS('.*') {rows.body()}",
            f"SELECT SUM({x} ORDER BY {x}), COUNT(*) FILTER ({self.boolean(rows.cols, 1)}) {rows.body()}",
            "SELECT COUNT(*) FROM users AS u SEMI JOIN orders AS o ON u.uid = o.uid",
            "SELECT COUNT(*) FROM users AS u ANTI JOIN orders AS o USING (uid)",
            "SELECT COUNT(*) FROM users AS u ASOF JOIN orders AS o ON u.uid = o.uid AND u.born <= o.day",
            "SELECT COUNT(*) FROM orders AS o RIGHT JOIN users AS u ON u.uid = o.uid",
            "SELECT COUNT(*) FROM users AS u, LATERAL (SELECT o.amount FROM orders AS o WHERE o.uid = u.uid) AS l",
            "SELECT COUNT(*) FROM users AS u POSITIONAL JOIN orders AS o",
            "SELECT u.city, COUNT(*) FROM users AS u GROUP BY u.city HAVING u.city > ALL (SELECT city FROM cities)",
        )  # fmt: skip
        return Query(
            render(sql, 1), render(sql, 2), render(sql, 3), (), frozenset({"no version's promise"}), expect="anything"
        )

    def broken(self, sql: str) -> Query:
        """A query with some of its words lost, doubled or exchanged."""
        words = re.findall(r"'[^']*'|\w+|\s+|[^\w\s]", sql)
        for _ in range(self.dice.randint(1, 3)):
            i, j = self.dice.randrange(len(words)), self.dice.randrange(len(words))
            match self.pick("lose", "double", "exchange", "insert"):
                case "lose":
                    words[i] = ""
                case "double":
                    words[i] = f"{words[i]} {words[i]}"
                case "exchange":
                    words[i], words[j] = words[j], words[i]
                case _:
                    words[i] += self.pick(
                        "(", ")", "'", '"', "NULL", "::", ".", "*", "\x00", "é", "--", "/*", " AS ", ","
                    )
        sql = "".join(words)
        return Query(sql, sql, sql, (), frozenset({"broken text"}), expect="anything")
