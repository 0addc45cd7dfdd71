"""policy.toml -> Policy: who is protected, what is publicly known of the data, and what may be spent.

This file says what a policy is; keys.py reads one and reports every mistake with its key path.
Names are case-insensitive: mappings are keyed by the lower-cased name, the values keep the steward's spelling.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypeAlias, assert_never

from dpsql.core.errors import PolicyError
from dpsql.core.frozen import dataclass
from dpsql.core.limit import Limit
from dpsql.policy.reader import Bound, Value
from dpsql.policy.settings import BackendSettings, EngineSettings

Adjacency: TypeAlias = Literal["add_remove", "replace_one"]
Accountant: TypeAlias = Literal["basic", "zcdp"]
Renewal: TypeAlias = Literal["never", "monthly"]
OnChange: TypeAlias = Literal["refuse", "accept"]
SourceKind: TypeAlias = Literal["parquet", "csv", "duckdb", "catalog"]
SEPARATORS = (",", ";", "\t", "|")
"""What may stand between the fields of a CSV file."""
LIMITS = ("max_rows", "max_rows_per_group", "max_groups")
"""Limits of one unit's contribution: keys of [privacy] and of a table, and fields of Privacy."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The public table and column whose values are a column's public keys."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class Column:
    """What the steward says of one column. Timestamps are naive and in UTC; `type` is DuckDB's own name of it."""

    name: str
    type: str | None = None
    min: Bound | None = None
    max: Bound | None = None
    values: tuple[Value, ...] | None = None
    references: Reference | None = None
    private: bool = False
    nullable: bool = True
    share: Fraction | None = None  # bounds = "auto": the part of a query's ε that its private range may take


@dataclass(frozen=True, slots=True)
class RowUnit:
    """Each row is its own unit: neighbours differ by one row."""


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """The rows with one value of this column are one unit's. Equal values are one unit only within a domain."""

    column: str
    domain: str = ""  # lower-cased; "" is the policy's one domain when no table names its own


@dataclass(frozen=True, slots=True)
class LinkedUnit:
    """A row belongs to the owner of the one row of `through` that it points to."""

    through: str
    on: tuple[tuple[str, str], ...]  # (column here, column there); those there are the key of `through`


Unit: TypeAlias = RowUnit | ColumnUnit | LinkedUnit


@dataclass(frozen=True, slots=True)
class Table:
    """One table that SQL may name. `source` is as written; None means an object passed from Python."""

    name: str
    source: str | None = None
    table: str | None = None
    public: bool = False
    unit: Unit | None = None  # None iff public
    rows_per_unit: int | None = None
    key: tuple[str, ...] | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)  # by the names in LIMITS
    separator: str | None = None  # of a CSV file's fields; None: as its ending says

    def column(self, name: str) -> Column | None:
        """What the policy says of a column; None where it says nothing."""
        return self.columns.get(name.lower())

    @property
    def kind(self) -> SourceKind | None:
        """How the source is read; None for an object passed from Python."""
        if self.source is None:
            return None
        return "catalog" if is_catalog_name(self.source) else source_kind(self.source)


@dataclass(frozen=True, slots=True)
class Budget:
    """What one ledger may ever spend, and what one query may."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    query_epsilon: Fraction | None = None
    max_query_epsilon: Fraction | None = None
    accountant: Accountant = "basic"
    ledger: str | None = None
    analysts: Mapping[str, Fraction] = field(default_factory=dict)  # quotas in ε; "*": everybody else together
    renew: Renewal = "never"
    anchor: str | tuple[str, ...] | None = None  # a file's path, or a command: what tells an older copy of the ledger
    must_exist: bool = False  # a missing ledger is refused, not created


@dataclass(frozen=True, slots=True)
class Privacy:
    """The neighbour relation, and the limits of one unit's contribution. Where one is None, a query chooses it."""

    adjacency: Adjacency = "add_remove"
    max_rows: Limit | None = None
    max_rows_per_group: Limit | None = None
    max_groups: Limit | None = None
    min_units: int | None = None
    limits_share: Fraction | None = None  # of a query's ε, for counts of units; None: by ε (quote/limits.py)
    keys_share: Fraction | None = None  # of what is left, for finding keys that aren't public; None: each query decides
    mechanism: str = "auto"  # one of mechanisms/registry.py


@dataclass(frozen=True, slots=True)
class Data:
    """What becomes of data that was written anew."""

    on_change: OnChange = "refuse"


@dataclass(frozen=True, slots=True)
class Policy:
    """What a policy file says, without mistakes as far as that can be checked without the data."""

    budget: Budget
    tables: Mapping[str, Table]
    privacy: Privacy = Privacy()
    engine: EngineSettings = EngineSettings()
    backend: BackendSettings = BackendSettings()
    data: Data = Data()
    path: Path | None = None
    base: Path | None = None  # folder of a policy that didn't come from a file
    digest: str = field(default="", compare=False)
    """SHA-256 of the file, or of the mapping that it was read from as canonical JSON: what receipts call it by."""

    @classmethod
    def load(cls, path: str | Path, *, sources: Iterable[str] = ()) -> Policy:
        """Read a policy file. `sources` names the tables that come as Python objects and need no source."""
        from dpsql.policy.keys import read

        path = Path(path).absolute()
        content = _content(path)
        loaded = read(_toml(path, content), path=path, base=None, sources=sources)
        return replace(loaded, digest=_digest(content))

    @classmethod
    def from_dict(
        cls, policy: Mapping[str, object], *, folder: str | Path | None = None, sources: Iterable[str] | None = None
    ) -> Policy:
        """Read a policy from a mapping with the structure of a file.

        Without `sources`, tables may lack a source: whoever opens them checks.
        """
        from dpsql.policy.keys import read

        base = None if folder is None else Path(folder).absolute()
        loaded = read(policy, path=None, base=base, sources=sources)
        canonical = json.dumps(policy, sort_keys=True, default=str)
        return replace(loaded, digest=_digest(canonical.encode()))

    @property
    def folder(self) -> Path:
        """What relative sources and the ledger are relative to."""
        return self.path.parent if self.path else self.base or Path.cwd()

    @property
    def ledger_path(self) -> Path:
        """The file of the account; by default beside the policy and named after it."""
        name = self.path.stem if self.path else "policy"
        return self.folder / (self.budget.ledger or f"{name}.ledger.sqlite")

    def table(self, name: str) -> Table | None:
        """The table that SQL calls by this name; None if the policy has none, so that it does not exist."""
        return self.tables.get(name.lower())

    def relation(self) -> str:
        """The neighbour relation as canonical JSON: two policies protect the same units iff the texts are equal."""
        units = {name: _relation(table.unit) for name, table in self.tables.items() if table.unit is not None}
        return json.dumps({"adjacency": self.privacy.adjacency, "tables": units}, sort_keys=True)


def _relation(unit: Unit) -> dict[str, object]:
    match unit:
        case RowUnit():
            return {"unit": "row"}
        case ColumnUnit(column, domain):
            return {"unit": "column", "column": column.lower(), "domain": domain.lower()}
        case LinkedUnit(through, on):
            pairs = sorted([here.lower(), there.lower()] for here, there in on)
            return {"unit": "link", "through": through.lower(), "on": pairs}
        case _:
            assert_never(unit)


_ENDINGS: dict[str, SourceKind] = {
    **dict.fromkeys(("parquet", "parq", "pq"), "parquet"),
    **dict.fromkeys(("csv", "tsv"), "csv"),
    **dict.fromkeys(("duckdb", "ddb", "db"), "duckdb"),
}


def source_kind(source: str) -> SourceKind | None:
    """How a source is read, by the end of its name; None if that says nothing. A lake's tables are parquet files."""
    if source.startswith(("delta:", "iceberg:")):
        return "parquet"
    ending = re.search(r"\.(?:(parquet|parq|pq|duckdb|ddb|db|csv|tsv)|(csv|tsv)\.(?:gz|zst|bz2))$", source.lower())
    return _ENDINGS[ending[1] or ending[2]] if ending else None


def is_catalog_name(source: str) -> bool:
    """Could it be the name of a table in a catalog: db.table, or catalog.db.table?"""
    return source_kind(source) is None and re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}", source) is not None


def _digest(content: bytes) -> str:
    from hashlib import sha256

    return f"sha256:{sha256(content).hexdigest()}"


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        hint = "draft one with: dpsql init data.parquet, or name another with --policy PATH"
        raise PolicyError(f"{path}: there is no such policy file", code="no-policy", hint=hint) from None
    except OSError as error:
        raise PolicyError(f"{path}: can't be read: {error.strerror}", code="no-policy") from None


def _toml(path: Path, content: bytes) -> dict[str, object]:
    try:
        return tomllib.loads(content.decode(), parse_float=Decimal)
    except UnicodeDecodeError:
        raise PolicyError(f"{path}: is not UTF-8 text", code="policy-syntax", hint="save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:  # its message ends in (at line 3, column 9)
        hint = (
            "texts need quotes, true and false are lower-case, and a key or [section] may come only once; see toml.io"
        )
        raise PolicyError(f"{path}: is not valid TOML: {error}", code="policy-syntax", hint=hint) from None
    except (ValueError, ArithmeticError, RecursionError):
        message = f"{path}: is not usable TOML: a number is too long or lists are nested too deeply"
        raise PolicyError(message, code="policy-syntax", hint="numbers have at most 4,300 digits") from None
