"""Records what clients ask of the catalogs by themselves: python -m tests.record_postgres

Each client that runs here is let loose on a port, and what it asks about tables, columns and keys goes to
tests/server/postgres_clients/recorded.json, with the number of rows that it got. Look at the difference before it is
committed: rows that are gone are what a client no longer sees.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import asyncpg
import psycopg
import sqlalchemy as sa
from postgres_ports import Port, make_policy

from dpsql.server.postgres.asking import Asker, Statement
from dpsql.server.postgres.results import Result

CLIENTS = Path(__file__).parent / "server" / "postgres_clients"
PSQL = ("\\d", "\\dt", "\\d trips", "\\d+ city", "\\l", "\\df", "\\dn", "\\du", "\\di", "\\dv", "\\dT", "\\z", "\\dx")


def with_psql(port: Port) -> str:
    told = port.named()
    environment = {**os.environ, "PGPASSWORD": told["password"]}
    command = ["psql", "-X", "-h", told["host"], "-p", str(told["port"]), "-U", "ann", "dpsql"]
    for one in PSQL:
        subprocess.run([*command, "-c", one], env=environment, check=True, capture_output=True)
    return subprocess.run(["psql", "--version"], check=True, capture_output=True, text=True).stdout.split()[2]


def with_pgjdbc(port: Port) -> str:
    told = port.named()
    environment = {**os.environ, "PGPASSWORD": told["password"]}
    url = f"jdbc:postgresql://{told['host']}:{told['port']}/dpsql"
    command = ["java", "-cp", "/usr/share/java/postgresql.jar", str(CLIENTS / "Metadata.java"), url, "ann"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[0].split()[1]


def with_sqlalchemy(port: Port) -> str:
    told = port.named()
    url = sa.URL.create("postgresql+psycopg", "ann", told["password"], told["host"], told["port"], "dpsql")
    engine = sa.create_engine(url)
    found = sa.inspect(engine)
    found.get_table_names(), found.get_view_names(), found.get_schema_names()
    for ask in (found.get_columns, found.get_pk_constraint, found.get_foreign_keys, found.get_indexes):
        ask("trips")
    sa.MetaData().reflect(engine)
    engine.dispose()
    return f"{sa.__version__} with psycopg {psycopg.__version__}"


def with_psycopg(port: Port) -> str:
    from psycopg.types import TypeInfo
    from psycopg.types.enum import EnumInfo
    from psycopg.types.range import RangeInfo

    with port.connect() as opened:
        for kind in (TypeInfo, EnumInfo, RangeInfo):
            kind.fetch(opened, "numeric")
    return psycopg.__version__


def with_asyncpg(port: Port) -> str:
    async def ask() -> None:
        told = port.named()
        opened = await asyncpg.connect(
            host=told["host"], port=told["port"], user="ann", password=told["password"], database="dpsql"
        )
        await opened._introspect_types({1231}, 10)  # an array of numerics: what it does for types that it doesn't know
        await opened.reset()
        await opened.close()

    asyncio.run(ask())
    return str(asyncpg.__version__)


def main() -> None:
    asked: list[dict[str, Any]] = []
    answer = Asker.run

    def noting(self: Asker, statement: Statement, values: Any) -> Result:
        result = answer(self, statement, values)
        if statement.catalog is not None:
            one = {"sql": statement.sql, "values": list(values), "rows": result.table.num_rows}
            if one not in asked:
                asked.append(one)
        return result

    clients: dict[str, Callable[[Port], str]] = {
        "psql": with_psql,
        "pgjdbc": with_pgjdbc,
        "SQLAlchemy": with_sqlalchemy,
        "psycopg": with_psycopg,
        "asyncpg": with_asyncpg,
    }
    recorded = []
    with tempfile.TemporaryDirectory() as folder:
        port = Port(make_policy(Path(folder)))
        Asker.run = noting  # type: ignore[method-assign]  # it listens in
        for name, let_loose in clients.items():
            asked.clear()
            version = let_loose(port)
            recorded.append({"client": name, "version": version, "asked": list(asked)})
            print(name, version, len(asked))
        port.close()
    (CLIENTS / "recorded.json").write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
