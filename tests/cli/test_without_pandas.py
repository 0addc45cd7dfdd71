"""The command line does without pandas, which takes half a second; Spark's client can't."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from services import WANTING

import dpsql

BEGIN = "import sys; from dpsql.cli.main import _WithoutPandas; sys.meta_path.insert(0, _WithoutPandas())\n"


def run(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(Path(dpsql.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", BEGIN + code], env=env, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def test_pyarrow_does_without_pandas() -> None:
    code = "import pyarrow; pyarrow.array([[1], [2]]); print('pandas' in sys.modules)"
    assert run(code) == "False\n"


@pytest.mark.skipif(find_spec("pyspark") is None, reason=f"{WANTING}pyspark (pip install 'dpsql[spark]')")
def test_the_client_of_spark_has_pandas() -> None:
    code = "from dpsql.backends.spark.server import connect_module; connect_module(); print('pandas' in sys.modules)"
    assert run(code) == "True\n"
