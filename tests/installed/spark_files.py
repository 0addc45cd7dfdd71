"""Files that Spark writes: one column of each type that it has, as parquet, CSV and gzip.

Starting Spark takes longer than all that it writes here, so one process writes everything, once: the files lie in the
cache of the environments, by a hash of what they are made of.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from installed.venvs import CACHE, locked
from services import needs

SPARK_TYPES: Mapping[str, str] = {  # as Spark computes it of a row's number id; others it doesn't have
    "BIGINT": "id % 7",
    "DOUBLE": "(id % 9) / 4",
    "BOOLEAN": "id % 3 = 0",
    "VARCHAR": "concat('w', id % 5)",
    "DATE": "date_add(DATE'2024-01-01', CAST(id AS INT))",
    "TIMESTAMP": "TIMESTAMP_NTZ'2024-01-01 00:00:00' + make_dt_interval(0, CAST(id * 13 AS INT))",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ'2024-01-01 00:00:00' + make_dt_interval(0, CAST(id * 13 AS INT))",
    "TIME": "TIME'01:00:00' + make_dt_interval(0, 0, CAST(id AS INT))",
    "DECIMAL(38,2)": "CAST(CAST(id AS DECIMAL(38,2)) / 3 AS DECIMAL(38,2))",
    "BLOB": "CAST(concat('b', id % 4) AS BINARY)",
    "LIST": "array(id, id + 1)",
    "STRUCT": "named_struct('a', id, 'b', 'x')",
    "MAP": "map('k', id)",
    "INTERVAL": "make_dt_interval(CAST(id AS INT))",
    "DICTIONARY": "concat('w', id % 5)",
}
FORMATS: Mapping[str, Mapping[str, str]] = {
    "parquet": {},
    "csv": {"header": "true"},
    "csv.gz": {"header": "true", "compression": "gzip"},
}
"""Endings of files, with the options of Spark's writer."""
SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
}
SECONDS = 300
"""After which Spark hangs."""
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from pyspark.errors import PySparkException
types, formats, settings, rows, folder = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for key, value in settings.items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
for place, text in enumerate(types.values()):
    for ending, options in formats.items():
        try:
            table = session.sql(f"SELECT id % 40 AS person, {text} AS v FROM range(0, {rows}, 1, 2)")
            writer = table.write.options(**options)
            (writer.parquet if ending == "parquet" else writer.csv)(f"{folder}/{place} {ending}")
        except PySparkException as lacking:
            print(ending, text, lacking.getCondition())
session.stop()
"""
"""Writes each type in each format into a folder; what Spark can't write isn't there."""


def spark_files(kind: str, ending: str, rows: int) -> Path | None:
    """The folder of files with one column v of this type, as Spark writes it; None where Spark has no such type."""
    if kind not in SPARK_TYPES:
        return None
    folder = _written(rows) / f"{list(SPARK_TYPES).index(kind)} {ending}"
    return folder if (folder / "_SUCCESS").is_file() else None


@cache
def _written(rows: int) -> Path:
    """The folder of all that Spark writes, which is written where it isn't there yet."""
    java = str(Path(needs("java")).resolve().parents[1])
    formats = {ending: dict(options) for ending, options in FORMATS.items()}
    asked = [dict(SPARK_TYPES), formats, dict(SETTINGS), rows]
    made_of = json.dumps([*asked, SCRIPT, version("pyspark")])
    place = CACHE / "spark" / hashlib.sha256(made_of.encode()).hexdigest()[:16]
    with locked():
        if not (place / "made").is_file():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            env = {name: text for name, text in os.environ.items() if "SPARK" not in name} | {"JAVA_HOME": java}
            command = [sys.executable, "-c", SCRIPT, json.dumps([*asked, str(place)])]
            done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=SECONDS, cwd=place)
            assert done.returncode == 0, done.stderr
            (place / "made").write_text(done.stdout, encoding="utf-8")
    return place
