"""What a package may import, and where an engine may be named: computed from the source, lazy imports included."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYERS = (
    "core", "options", "mechanisms", "policy", "accounting", "statistics", "aggregates", "sql", "plan", "analyze",
    "bounds", "quote", "backends", "release", "explain", "answer", "store", "engine", "quoting", "refresh", "run",
    "learn", "session", "remote", "dbapi", "jobs", "steward", "server", "cli",
)  # fmt: skip
"""From the bottom to the top: each imports from those before it alone, and from itself."""

ABOVE = ("dpsql", "dpsql.__main__")  # the names that people import, and the command: they import what they name

PEOPLES_SQL = "dpsql.sql.dialect"  # the one module that names the dialect of the SQL that people write
NAMES_A_DIALECT = re.compile(
    r"""dialect\s*(?:=|:\s*str\s*=)\s*["']duckdb["']   # dialect="duckdb"
      | \b(?:get_or_raise|parse_one|parse|transpile)\([^()\n]*["']duckdb["']
      | ^[A-Z_]*DIALECT[A-Z_]*\s*(?::[^=\n]*)?=\s*["']duckdb["']  # DIALECT = "duckdb"
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)


def modules() -> dict[str, Path]:
    """Each module by its name."""
    files = (f.relative_to(ROOT) for f in sorted((ROOT / "dpsql").rglob("*.py")))
    return {".".join(f.with_suffix("").parts).removesuffix(".__init__"): ROOT / f for f in files}


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules that a module names in imports anywhere: at the top, in functions, for type checkers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{name}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def layer(module: str) -> str:
    return module.split(".")[1]


@cache
def edges() -> tuple[tuple[str, str], ...]:
    known = modules()
    return tuple((name, found) for name, path in known.items() for found in imports(name, path, known))


def upward() -> set[tuple[str, str]]:
    return {
        (name, found)
        for name, found in edges()
        if name not in ABOVE and found.startswith("dpsql.") and LAYERS.index(layer(found)) > LAYERS.index(layer(name))
    }


def test_every_module_has_a_layer() -> None:
    present = {layer(name) for name in modules() if name not in ABOVE}
    assert present == set(LAYERS)


def test_nothing_imports_from_a_layer_above_it() -> None:
    assert not upward(), "an import goes up: move what it needs down, or pass it in"


def test_nothing_below_the_command_imports_the_package_itself() -> None:
    """`import dpsql` loads whatever is asked of it: such an import could go up unseen."""
    allowed = {name for name, found in edges() if found == "dpsql"}
    assert {layer(name) for name in allowed - set(ABOVE)} <= {"cli"}


def test_no_module_outside_the_backends_imports_an_engine() -> None:
    guilty = {name for name, found in edges() if found.split(".")[0] == "duckdb" and layer(name) != "backends"}
    assert not guilty


def test_only_the_choice_of_a_backend_imports_one() -> None:
    folders = {f"dpsql.backends.{f.parent.name}" for f in (ROOT / "dpsql" / "backends").glob("*/backend.py")}
    assert "dpsql.backends.duckdb" in folders
    guilty = {
        name
        for name, found in edges()
        for folder in folders
        if (found == folder or found.startswith(f"{folder}."))
        and not (name == folder or name.startswith(f"{folder}."))
        and name != "dpsql.backends.choose"
    }
    assert not guilty


def test_only_one_module_outside_the_backends_names_a_dialect() -> None:
    named = {
        name
        for name, path in modules().items()
        if not name.startswith("dpsql.backends") and NAMES_A_DIALECT.search(path.read_text(encoding="utf-8"))
    }
    assert named == {PEOPLES_SQL}


def test_the_pattern_of_dialects_finds_what_it_is_for() -> None:
    for text in (
        'exp.DataType.build(kind, dialect="duckdb")',
        "node.sql(dialect = 'duckdb')",
        '_DUCKDB = Dialect.get_or_raise("duckdb")',
        'DIALECT = "duckdb"',
        'sqlglot.parse_one(text, "duckdb")',
    ):
        assert NAMES_A_DIALECT.search(text), text
    for text in ('if table.kind == "duckdb":', 'code="duckdb",'):
        assert not NAMES_A_DIALECT.search(text), text
