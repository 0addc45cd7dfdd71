"""What Spark must compute like DuckDB, as SQL over rows that are hard to get right.

Each expression is made total as in any query, written for both engines, and computed by both over PROBE_ROWS. An engine
that answers otherwise is refused when it is reached (conform.py); and a function whose probes differ has no spelling.
NEAR: functions of which engines may differ in the last digits (sql/functions/primitives.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

INF, NAN = float("inf"), float("nan")
TYPES: Mapping[str, str] = {
    "i": "BIGINT",
    "n": "INTEGER",
    "k": "SMALLINT",
    "d": "DOUBLE",
    "f": "FLOAT",
    "m": "DECIMAL(18,3)",
    "q": "DECIMAL(38,10)",
    "b": "BOOLEAN",
    "s": "VARCHAR",
    "t": "VARCHAR",
    "w": "VARCHAR",
    "day": "DATE",
    "at": "TIMESTAMP",
    "tz": "TIMESTAMP WITH TIME ZONE",
}
_NUMBERS = (
    "0.0 -0.0 0.5 -0.5 1.5 2.5 -1.5 -0.7 0.285 2.675 1e-300 5e-324 1000000000000000.5 4503599627370497 "
    "9007199254740992 9.2233720368547758e18 -9.2233720368547758e18 1e19 1e308 -1e308 2147483647.5 -2147483648.5 0.1 "
    "0.3333333333333333 8 536870912 1000 3.999999999 nan inf -inf"
)
_DECIMALS = (
    "0.000 0.001 -0.001 0.500 -0.500 1.500 2.500 -2.500 2.675 0.285 999.999 1.499 "
    "123456789012345.678 -999999999999999.999 9007199254740.993 123456789012345.679 -9007199254741.001"
)
_LONG_DECIMALS = (
    "1234567890123456789012345678.0123456789 -1999999999999999999999999999.9999999999 0.0000000001 "
    "9999999999999999999999999999.9999999999 -9999999999999999999999999999.9999999999 0.5"
)
_DAYS = (
    "1970-01-01 1969-12-31 2024-02-29 2023-02-28 2024-01-31 2024-12-30 2024-12-31 2025-01-01 2021-01-03 2000-01-01 "
    "1900-03-01 1582-10-04 1582-10-15 0001-01-01 9999-12-31 2010-01-04"
)
_MOMENTS = (
    "1970-01-01T00:00:00 1969-12-31T23:59:59.999999 2024-02-29T12:34:56.789012 2024-03-31T02:30:00 "
    "1900-01-01T00:00:00.000001 0001-01-01T00:00:00 9999-12-31T23:59:59.999999 2024-12-31T23:59:59 "
    "2024-01-31T10:00:00.500000 1582-10-10T01:02:03 2023-11-05T06:00:00"
)
_TEXTS = (
    "|a|A|abc|ABC abc|  x | x|straße|ÄÖÜ äöü|ΑΣ|İstanbul|ﬁ|日本語 日本|😀 b|éa|a,b,,c|,|%_\\|a\nb|a\n|line\r\n|"
    "12| 12 |x1y22|${env:HOME}|${spark.master}|a'b\"c`d|:p0|-|\u2028|\u3000w\u3000|\t|aaa|abcabc"
)
_WORDS = (
    "12|+12|-12|--12|+-1|-+1|++1| 12 |\t12\n|\v12\f|\u00a012|12.5|12.|.5|-.5|.|1e2|1E+2|1e-2|1e|1.5e1|1_000|1__0|_1|1_|"
    "1_0.5|1.5_0|1._5|1_.5|1.0_|1_e1|1e_1|1e1_0|0x1F|0b101|007|1e400|-1e400|1e-400|5e-324|nan|NaN|-nan|+nan|nan(a1)|nan(|inf|"
    "-inf|+inf|Infinity|infinit|1d|1f|1D|1 2|١٢|1e0.5|.e2|-0|-0.0|1,000|true|T|tRuE| true|yes|Y|no|n|off|FALSE|f|0|1|2|"
    "0.1|2.2250738585072011e-308|9007199254740993|0.49999999999999999999999999|179769313486231580793e289|x"
)

PROBE_ROWS: Mapping[str, tuple[Any, ...]] = {
    "i": (0, 1, -1, 7, -7, 2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1, 10**18, 4294967296, 1000, None),
    "n": (0, 1, -1, 2, 3, -3, 5, 30, 31, -8, 2**31 - 1, -(2**31), 255, 2**24 + 1, None),
    "k": (0, 1, -1, 32767, -32768, 12, None),
    "d": (*map(float, _NUMBERS.split()), None),
    "f": (0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 0.1, 3.4e38, 16777217.0, NAN, INF, -INF, None),
    "m": (*map(Decimal, _DECIMALS.split()), None),
    "q": (*map(Decimal, _LONG_DECIMALS.split()), None),
    "b": (True, False, None),
    "s": (*_TEXTS.split("|"), None),
    "t": ("", "a", "b", "abc", "日", "😀", "A", "c,", "\n", None),
    "w": (*_WORDS.split("|"), None),
    "day": (*map(date.fromisoformat, _DAYS.split()), None),
    "at": (*map(datetime.fromisoformat, _MOMENTS.split()), None),
    "tz": (*(datetime.fromisoformat(text).replace(tzinfo=UTC) for text in _MOMENTS.split()[:7]), None),
}
"""Columns of different lengths: rows repeat the shorter ones, so that values meet in many ways."""

_PROBES = {
    "+ - *": (
        "i + n; i - n; n * n; i * n; n + k; k * k; d + d; d * 3; f + f; m + m; m - n; m * m; m * 1.5; -n; -i; -d; "
        "-m; -q; -(CAST(i AS HUGEINT) * i)"
    ),
    "/ // %": "d / n; f / f; n / k; n // k; i // 10; n % 7; n % k; i % 10; d % 2.5; n // 0",
    "& | ~ XOR": "n & 12; i | n; ~ n; ~ i; XOR(n, k)",
    "= < <> <= BETWEEN IN": (
        "d = d; d < 0.5; d > 1e18; n = k; i <> n; m >= 0.5; m = n; s = t; s < t; s >= 'a'; day = DATE "
        "'2024-02-29'; day < DATE '1600-01-01'; at >= TIMESTAMP '2024-01-01 00:00:00'; f = 0.5; b = (n > 0); q >= 0.5; "
        "n BETWEEN -1 AND 5; d BETWEEN 0 AND 1; n IN (1, 2, 255); n IN (1, NULL); d IN (0, 0.5); s IN ('a', "
        "'${env:HOME}', '日本語 日本'); s IN ('a', NULL); d IS DISTINCT FROM f; n IS NOT DISTINCT FROM k"
    ),
    "AND OR NOT IS": "b AND n > 0; b OR n > 0; NOT b; b IS NULL; (n > 0) IS TRUE; d IS NOT NULL",
    "CASE IF COALESCE NULLIF": (
        "CASE WHEN b THEN n WHEN n > 2 THEN k END; CASE n WHEN 1 THEN 'one' WHEN 2 THEN s ELSE 'x' END; IF(d "
        "> 0, d, 0); COALESCE(n, k, 0); NULLIF(d, 0); NULLIF(s, 'a')"
    ),
    "LEAST GREATEST": (
        "LEAST(n, k); GREATEST(n, k, 3); LEAST(d, 0.5); GREATEST(d, f); LEAST(s, t); "
        "GREATEST(LEAST(i, CASE WHEN b THEN 1 END), CASE WHEN b THEN 0 END) + 1; "
        "n * GREATEST(NULL, 2)"
    ),
    "CAST": (
        "CAST(d AS INTEGER); CAST(d AS BIGINT); CAST(d AS SMALLINT); CAST(f AS INTEGER); CAST(m AS INTEGER); "
        "CAST(m AS BIGINT); CAST(i AS INTEGER); CAST(n AS SMALLINT); CAST(n AS DOUBLE); CAST(i AS DOUBLE); "
        "CAST(f AS DOUBLE); CAST(n AS DECIMAL(5,2)); CAST(m AS DECIMAL(18,1)); CAST(m AS DECIMAL(6,3)); "
        "CAST(b AS INTEGER); CAST(n AS BOOLEAN); CAST(d AS BOOLEAN); CAST(n AS VARCHAR); CAST(i AS VARCHAR); "
        "CAST(m AS VARCHAR); CAST(b AS VARCHAR); CAST(day AS VARCHAR); CAST(at AS VARCHAR); CAST(tz AS "
        "VARCHAR); CAST(day AS TIMESTAMP); CAST(at AS DATE); CAST(tz AS TIMESTAMP); CAST(at AS TIMESTAMPTZ); "
        "CAST(day AS TIMESTAMPTZ); CAST(i AS HUGEINT); CAST(n AS FLOAT); "
        "CAST(CAST(n AS FLOAT) AS DOUBLE); CAST(CAST(i AS FLOAT) AS DOUBLE); CAST(CAST(n AS FLOAT) AS BIGINT) * 1; "
        "CAST(q AS BIGINT); CAST(q AS VARCHAR); CAST(m AS DOUBLE); CAST(CAST(m AS DECIMAL(6,3)) AS FLOAT); "
        "m / 7; d * 2.7182818284590452; CAST(LEAST(i, 2147483648) AS FLOAT); CAST(n AS HUGEINT) / 7; "
        "CAST(CAST(i AS HUGEINT) * n AS DOUBLE); CAST(CAST(i AS HUGEINT) - 1 AS DOUBLE); i * i * i; "
        "CAST(day + 106751991 AS TIMESTAMP); CAST(CASE WHEN b THEN DATE '300000-01-01' END AS TIMESTAMP); "
        "CAST(day - 106751991 AS TIMESTAMP); CAST(day + n AS TIMESTAMP); CAST(CAST(i AS HUGEINT) AS DOUBLE); "
        "CAST(q AS DOUBLE); CAST(CAST(q AS DECIMAL(35,4)) AS DOUBLE); CAST(CAST(q AS DECIMAL(30,0)) AS DOUBLE); "
        "m * q / 7; CAST(CAST(m AS DECIMAL(30,9)) AS DOUBLE); CAST(s AS DOUBLE); CAST(w AS DOUBLE); "
        "TRY_CAST(w AS BOOLEAN); CAST(s AS BOOLEAN); CAST(CAST(w AS DOUBLE) AS INTEGER)"
    ),
    "ABS": "ABS(n); ABS(i); ABS(d); ABS(m); ABS(k); ABS(q); ABS(CAST(i AS HUGEINT) * i)",
    "SIGN": "SIGN(n); SIGN(d); SIGN(m); SIGN(q)",
    "ROUND": (
        "ROUND(d); ROUND(m); ROUND(m, 1); ROUND(m, 2); ROUND(d, 0); ROUND(q); ROUND(q, 9); ROUND(d, 1); "
        "ROUND(d, 2); ROUND(d, 5); ROUND(d, 15); ROUND(d, -1); ROUND(d, -3); ROUND(n, -1); ROUND(i, -2); ROUND(k, -3)"
    ),
    "TRUNC": "TRUNC(d); TRUNC(d, 2); TRUNC(d, -2); TRUNC(m); TRUNC(m, 1); TRUNC(q, 3); TRUNC(n)",
    "FLOOR": "FLOOR(d); FLOOR(m); FLOOR(f); FLOOR(n); FLOOR(q)",
    "CEIL": "CEIL(d); CEIL(m); CEIL(f); CEIL(q); CEIL(LOG2(n))",
    "SQRT": "SQRT(d); SQRT(n)",
    "CBRT": "CBRT(d)",
    "EXP": "EXP(d)",
    "LN": "LN(d)",
    "LOG2": "LOG2(d); LOG2(i)",
    "LOG10": "LOG10(d); LOG(i)",
    "POWER": "POWER(d, 2); POWER(2, n); POWER(d, 0.5)",
    "PI": "PI()",
    "DEGREES RADIANS": "DEGREES(d); DEGREES(n); RADIANS(d); RADIANS(n)",
    "BIT_COUNT": "BIT_COUNT(n); BIT_COUNT(i); BIT_COUNT(k)",
    "SIGNBIT": "SIGNBIT(d)",
    "ISNAN ISINF ISFINITE": "ISNAN(d); ISINF(d); ISFINITE(d); ISFINITE(f); ISINF(day); ISFINITE(at)",
    "WIDTH_BUCKET CLIP": (
        "WIDTH_BUCKET(d, 0, 10, 7); CLIP(d, -1, 2); CLIP(n, 0, 10); CLIP(m, 0, 1); "
        "CLIP(day, '2001-02-03', '2024-02-29'); CLIP(at, '2001-02-03', '2024-02-29')"
    ),
    "LOWER UPPER": "LOWER(s); UPPER(s); LOWER(t)",
    "TRIM": "TRIM(s); LTRIM(s); RTRIM(s); TRIM(s, 'ab'); LTRIM(s, 'a,'); RTRIM(s, 'c日')",
    "LENGTH STRLEN BIT_LENGTH": "LENGTH(s); STRLEN(s); BIT_LENGTH(s)",
    "LEFT RIGHT": (
        "LEFT(s, 2); LEFT(s, 0); LEFT(s, -1); LEFT(s, n); RIGHT(s, 2); RIGHT(s, -1); RIGHT(s, 0); RIGHT(s, n); "
        "LEFT(s, i); RIGHT(s, i); LEFT(s, LENGTH(t)); RIGHT(s, LENGTH(t))"
    ),
    "SUBSTRING": (
        "SUBSTRING(s, 1, 2); SUBSTRING(s, 2); SUBSTRING(s, 3, 0); SUBSTRING(s, 0, 2); SUBSTRING(s, 0); "
        "SUBSTRING(s, -2); SUBSTRING(s, -3, 2); SUBSTRING(s, 3, -2); SUBSTRING(s, 0, -1); SUBSTRING(s, n); "
        "SUBSTRING(s, n, k); SUBSTRING(s, k, n)"
    ),
    "REPLACE": "REPLACE(s, 'a', 'xy'); REPLACE(s, '', 'x'); REPLACE(s, 'b', '')",
    "TRANSLATE": "TRANSLATE(s, 'abc', 'xy'); TRANSLATE(s, 'aa', 'xy'); TRANSLATE(s, '日', 'n')",
    "LPAD RPAD": "LPAD(s, 4, 'xy'); RPAD(s, 4, 'xy'); LPAD(s, 2, '日'); LPAD(s, 0, 'a')",
    "|| CONCAT CONCAT_WS": "s || t; CONCAT(s, t, 'x'); CONCAT_WS('-', s, t); s || CAST(n AS VARCHAR)",
    "SPLIT_PART": ("SPLIT_PART(s, ',', 1); SPLIT_PART(s, ',', 2); SPLIT_PART(s, ' ', -1); SPLIT_PART(s, 'abc', 2)"),
    "STARTS_WITH ENDS_WITH CONTAINS": "STARTS_WITH(s, t); ENDS_WITH(s, t); CONTAINS(s, t); STARTS_WITH(s, 'a')",
    "POSITION": "STRPOS(s, t); POSITION('b' IN s)",
    "ASCII UNICODE": "ASCII(s); UNICODE(s)",
    "LIKE ILIKE": (
        r"s LIKE 'a%'; s LIKE '%_b'; s LIKE '%\%'; s LIKE '%!_%' ESCAPE '!'; s NOT LIKE '_'; s LIKE ''; s LIKE "
        "'a%b'; s ILIKE 'A%'; s ILIKE '%ÄÖ_ %'; s ILIKE '%ss%'; s ILIKE 'i%'; s ILIKE '%Σ'; s NOT ILIKE '%B'; "
        "s ILIKE '%!_%' ESCAPE '!'"
    ),
    "REGEXP_MATCHES": (
        "REGEXP_MATCHES(s, 'a.b'); REGEXP_MATCHES(s, '^[A-Z]+'); REGEXP_MATCHES(s, 'b$'); REGEXP_MATCHES(s, "
        r"'\d+'); REGEXP_MATCHES(s, '\s'); REGEXP_MATCHES(s, '(x|y)\d{1,2}'); REGEXP_MATCHES(s, '[^a-z]'); "
        r"REGEXP_MATCHES(s, '.'); REGEXP_MATCHES(s, '\w\W')"
    ),
    "REGEXP_FULL_MATCH": ("REGEXP_FULL_MATCH(s, '[a-c]*'); REGEXP_FULL_MATCH(s, 'a.*'); REGEXP_FULL_MATCH(s, 'a|abc')"),
    "REGEXP_EXTRACT": (
        r"REGEXP_EXTRACT(s, '[a-z]+'); REGEXP_EXTRACT(s, '([a-z])(\d*)', 2); REGEXP_EXTRACT(s, '^a*?b')"
    ),
    "YEAR": "YEAR(day); YEAR(at); YEAR(tz)",
    "QUARTER MONTH DAY": "QUARTER(day); MONTH(at); DAY(day); DAY(at)",
    "DAYOFYEAR DAYOFWEEK ISODOW": "DAYOFYEAR(day); DAYOFWEEK(day); DAYOFWEEK(at); ISODOW(day)",
    "HOUR MINUTE SECOND": (
        "HOUR(at); MINUTE(at); SECOND(at); HOUR(tz); HOUR(day); HOUR(day + n); SECOND(day + 200000000)"
    ),
    "MILLISECOND MICROSECOND NANOSECOND": "MILLISECOND(at); MICROSECOND(at); NANOSECOND(at); MICROSECOND(tz)",
    "DECADE CENTURY MILLENNIUM ERA": "DECADE(day); CENTURY(day); MILLENNIUM(at); ERA(day)",
    "WEEK ISOYEAR YEARWEEK": "WEEK(day); ISOYEAR(day); YEARWEEK(day); WEEK(at); YEARWEEK(day + 200000000)",
    "EPOCH": "EPOCH(at); EPOCH(day); EPOCH(day + n)",
    "EPOCH_US": "EPOCH_US(at)",
    "EPOCH_NS": "EPOCH_NS(at)",
    "DAYNAME MONTHNAME": "DAYNAME(day); MONTHNAME(at)",
    "LAST_DAY": "LAST_DAY(day); LAST_DAY(at)",
    "DATE_TRUNC": (
        "DATE_TRUNC('year', at); DATE_TRUNC('quarter', at); DATE_TRUNC('month', at); DATE_TRUNC('week', at); "
        "DATE_TRUNC('day', at); DATE_TRUNC('hour', at); DATE_TRUNC('minute', at); DATE_TRUNC('second', at); "
        "DATE_TRUNC('millisecond', at); DATE_TRUNC('microsecond', at); DATE_TRUNC('month', day); "
        "DATE_TRUNC('week', day); DATE_TRUNC('hour', tz)"
    ),
    "DATE_DIFF": (
        "DATE_DIFF('year', day, DATE '2024-03-01'); DATE_DIFF('quarter', day, DATE '2024-03-01'); "
        "DATE_DIFF('month', day, DATE '2024-03-01'); DATE_DIFF('day', day, DATE '2024-03-01'); "
        "DATE_DIFF('month', at, TIMESTAMP '2001-02-03 04:05:06'); DATE_DIFF('day', at, TIMESTAMP '2001-02-03 "
        "04:05:06'); DATE_DIFF('week', day, DATE '2024-03-01'); "
        "DATE_DIFF('week', at, TIMESTAMP '2001-02-03 04:05:06'); "
        "DATE_DIFF('decade', day, DATE '2024-03-01'); DATE_DIFF('century', day, DATE '1969-03-01'); "
        "DATE_DIFF('millennium', day, DATE '1969-03-01'); "
        "DATE_DIFF('hour', at, TIMESTAMP '2001-02-03 04:05:06'); DATE_DIFF('minute', at, "
        "TIMESTAMP '2001-02-03 04:05:06'); DATE_DIFF('second', at, TIMESTAMP '2001-02-03 04:05:06'); "
        "DATE_DIFF('millisecond', at, TIMESTAMP '2001-02-03 04:05:06'); DATE_DIFF('microsecond', at, "
        "TIMESTAMP '2001-02-03 04:05:06')"
    ),
    "DATE_SUB": (
        "DATE_SUB('week', at, TIMESTAMP '2001-02-03 04:05:06'); DATE_SUB('day', at, TIMESTAMP '2001-02-03 "
        "04:05:06'); DATE_SUB('hour', at, TIMESTAMP '2001-02-03 04:05:06'); DATE_SUB('minute', at, TIMESTAMP "
        "'2001-02-03 04:05:06'); DATE_SUB('second', at, TIMESTAMP '2001-02-03 04:05:06'); DATE_SUB('day', "
        "day, DATE '2024-03-01')"
    ),
    "date ± INTERVAL": (
        "day + INTERVAL 1 MONTH; at + INTERVAL 1 MONTH; day + INTERVAL 29 DAY; at - INTERVAL 90 MINUTE; at + "
        "INTERVAL '1 month 1 day'; tz + INTERVAL 1 YEAR; at + INTERVAL '1.5 seconds'; day - INTERVAL 1 MONTH"
    ),
    "date ± days": "day + n; day - 30; day - DATE '2000-01-01'",
    "STRFTIME": r"STRFTIME(day, '%Y-%m-%d'); STRFTIME(at, '%H:%M:%S %% %j'); STRFTIME(at, 'a\b %Y')",
}
PROBES: Mapping[str, tuple[str, ...]] = {about: tuple(texts.split("; ")) for about, texts in _PROBES.items()}
"""By the functions that they are about, as people write them."""

SHORT: Mapping[str, tuple[str, ...]] = {
    **{about: texts[:1] for about, texts in PROBES.items()},
    "= < <> <= BETWEEN IN": ("s IN ('a', '${env:HOME}', '日本語 日本')",),
}
"""One of each, asked at every connection: of constants the one that a server may substitute."""

NEAR = frozenset({"CBRT", "EXP", "LN", "LOG2", "LOG10", "POWER"})
