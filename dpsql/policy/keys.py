"""Every key of a policy file, declared once: its name, its sentence, how it is read, an example, what holds without it.

The reader knows no others; docs/policy.md and the JSON Schema are made of this. A new key is a line here, and a field
of that name in model.py. What keys and tables must keep together is in checks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from dpsql.core import STEWARD
from dpsql.core.errors import PolicyError
from dpsql.core.frozen import dataclass
from dpsql.core.limit import AUTO
from dpsql.mechanisms.registry import ASKED_FOR
from dpsql.policy import checks, model, settings
from dpsql.policy.model import Policy
from dpsql.policy.reader import (
    LARGEST_LIMIT,
    Section,
    Unfit,
    column_type,
    exact_decimal,
    parse_delta,
    parse_epsilon,
    read_bound,
    read_values,
    show,
)

DEFAULT_SHARE = Fraction(1, 10)

Form = Mapping[str, Any]
"""A JSON Schema of what may be written."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What may stand behind a key: for editors, and for the reader. read: notes a mistake, and returns None then."""

    form: Form
    read: Callable[[Section, str], Any]


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what it says, in a sentence; what may be written; what holds where it isn't there.

    needed: what to write where it is missing; empty for a key that may be left out.
    """

    name: str
    text: str
    kind: Kind
    example: str
    default: str = ""
    needed: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A section of a policy file: the keys that it may have. path: as TOML writes it, <name> for names to choose.

    make: the model's value, of fields named like the keys. check: notes where keys contradict each other. later: keys
    that this version doesn't support.
    """

    path: str
    text: str
    keys: tuple[Key, ...]
    make: Callable[..., Any]
    check: Callable[[Section], None] = lambda _: None
    later: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(key.name for key in self.keys)

    @property
    def form(self) -> dict[str, Any]:
        """Its JSON Schema."""
        needed = [key.name for key in self.keys if key.needed]
        properties = {key.name: {"description": key.text, **key.kind.form} for key in self.keys}
        form: dict[str, Any] = {"type": "object", "description": self.text, "properties": properties}
        return form | ({"required": needed} if needed else {}) | {"additionalProperties": False}

    def read(self, section: Section, **fields: object) -> Any:
        """The model's value, with these fields besides; None where a needed key is missing or unfit."""
        for key in self.keys:
            if key.name in section.entries:
                if (value := key.kind.read(section, key.name)) is not None:
                    section.values[key.name] = value
            elif key.needed:
                section.missing(key.name, hint=key.needed)
        self.check(section)
        complete = all(key.name in section.values for key in self.keys if key.needed)
        return self.make(**fields, **section.values) if complete else None

    def inside(self) -> Kind:
        """A table of these keys."""
        return Kind(self.form, lambda above, key: self.read(above.section(key, self.names, self.later)))

    def by_name(self, text: str, needed: str = "") -> Kind:
        """A table of such tables, by names to choose; needed: what to write where there is none."""

        def read(above: Section, key: str) -> Any:
            tables = above.section(key)
            if needed and tables.readable and not tables.entries:
                above.missing(key, hint=needed)
            parts = tables.sections(self.names, self.later)
            return MappingProxyType({lower: self.read(part, name=name) for lower, (name, part) in parts.items()})

        return Kind(_each(self.form, text, least=1 if needed else 0), read)


# ---------------------------------------------------------------- kinds


def _each(form: Form, text: str, least: int = 0) -> Form:
    """A table whose keys are names to choose, with at least so many of them."""
    more = {"minProperties": least} if least else {}
    return {**more, "type": "object", "description": text, "additionalProperties": form}


def _choice(options: tuple[str, ...]) -> Kind:
    return Kind({"enum": list(options)}, lambda section, key: section.choice(key, options))


def _parsed(form: Form, parse: Callable[[object], Any]) -> Kind:
    """What `parse` makes of a value; Unfit is a mistake."""
    return Kind(form, lambda section, key: section.attempt(key, parse))


def _of_the_type(form: Form, parse: Callable[[object, str | None], Any]) -> Kind:
    """What `parse` makes of a value in the column's type; nothing where that is a mistake."""

    def read(section: Section, key: str) -> Any:
        if "type" in section.entries and "type" not in section.values:
            return None
        return section.attempt(key, lambda written: parse(written, section.values.get("type")))

    return Kind(form, read)


def _share(most: str, hint: str, *, least: Decimal = Decimal("0.001")) -> Kind:
    """A part of a query's ε. least: 0.001, or 0 where it may be nothing at all."""

    def parse(written: object) -> Fraction:
        number = exact_decimal(written) if not isinstance(written, str) else None
        if number is None or not (number == least or Decimal("0.001") <= number <= Decimal(most)):
            raise Unfit(f"must be a number from 0.001 to {most}, not {show(written)}", hint)
        return Fraction(number)

    return _parsed({"type": "number", "minimum": float(least) if least else 0, "maximum": float(most)}, parse)


_STRING: Form = {"type": "string", "minLength": 1}
_NUMBER_OR_DATE: Form = {"type": ["number", "string"]}  # editors take TOML's dates for strings
_SIZE: Form = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*([KMGTkmgt][iI]?[bB]|%)\s*$"}

_TEXT = Kind(_STRING, Section.text)
_FLAG = Kind({"type": "boolean"}, partial(Section.flag, default=False))
_COUNT = Kind({"type": "integer", "minimum": 1, "maximum": LARGEST_LIMIT}, Section.count)
_MOST: Form = {
    "type": "object", "properties": {"most": _COUNT.form}, "required": ["most"], "additionalProperties": False
}  # fmt: skip
_LIMIT = Kind({"anyOf": [_COUNT.form, {"enum": [AUTO]}, _MOST]}, Section.limit)
_EPSILON = Kind({"type": "number", "minimum": 1e-6, "maximum": 1e12}, partial(Section.parsed, parse=parse_epsilon))
_DELTA = Kind({"type": "number", "minimum": 0, "exclusiveMaximum": 1e-3}, partial(Section.parsed, parse=parse_delta))
_NAMES = Kind(
    {"anyOf": [_STRING, {"type": "array", "items": _STRING, "minItems": 1, "uniqueItems": True}]}, Section.names
)


# ---------------------------------------------------------------- [budget]


def _command(section: Section, key: str) -> tuple[str, ...] | None:
    written = section.entries.get(key)
    words = written if isinstance(written, list | tuple) else []
    if words and words[0] and all(isinstance(word, str) and "\0" not in word for word in words):
        return tuple(words)
    hint = 'anchor = "path", or anchor = { command = ["program", "argument"] }'
    section.wrong(key, "must be a list of texts: a program and its arguments", hint=hint)
    return None


ANCHOR = Part(
    "budget.anchor",
    "A program that keeps the account's head.",
    (
        Key("command", "The program and its arguments.",
            Kind({"type": "array", "items": {"type": "string"}, "minItems": 1}, _command), '["keep-head", "dpsql"]',
            needed="the program and its arguments"),
    ),
    make=lambda command: command,
)  # fmt: skip


def _anchor(budget: Section, key: str) -> str | tuple[str, ...] | None:
    """A file's path, or a program with its arguments."""
    written = budget.entries[key]
    if not isinstance(written, Mapping):
        return budget.text(key)
    section = budget.section(key, ANCHOR.names)
    return _command(section, "command") if "command" in section.entries or not written else None


def _quotas(budget: Section, key: str) -> Mapping[str, Fraction]:
    """Each analyst's quota; "*" is everybody's who isn't listed, together."""
    section, epsilon = budget.section(key), budget.values.get("epsilon")
    quotas: dict[str, Fraction] = {}
    for name in section.entries:
        quota = section.parsed(name, parse_epsilon)
        if name.strip() == STEWARD:
            section.wrong(name, "is the steward's own name in the ledger", hint="no analyst has it: choose another one")
        if quota is not None and epsilon is not None and quota > epsilon:
            section.wrong(name, f"is more than {budget.at('epsilon')}", hint="a quota is a part of the total")
        if quota is not None:
            quotas[name] = quota
    return MappingProxyType(quotas)


BUDGET = Part(
    "budget",
    "What may be spent, and on which account.",
    (
        Key("epsilon", "The total ε that may ever be spent, over the life of the ledger: how much all answers together "
            "may tell of one unit.", _EPSILON, "3",
            needed="the total that may ever be spent: [budget] epsilon = 3"),
        Key("delta", "The total δ: the probability that the promise of ε doesn't hold. 0 is pure DP; keys that aren't "
            "public, and Gaussian noise, need more than 0, and far less than 1 / number of units.",
            _DELTA, "1e-6", "0"),
        Key("query_epsilon", "What a query spends when it names no ε.", _EPSILON, "0.3",
            "a query must name its ε"),
        Key("max_query_epsilon", "What one query may spend at most.", _EPSILON, "1", "the whole budget"),
        Key("accountant", "How spends add up: sums of ε and δ, or zero-concentrated DP, better from a dozen or two "
            "queries on.", _choice(get_args(model.Accountant)), '"basic"', '"basic"'),
        Key("ledger", "The file of the account, relative to the policy.", _TEXT, '"ledger.sqlite"',
            "<policy>.ledger.sqlite beside the policy"),
        Key("anchor", "Where the account's head is noted as well, so that a restored older copy of the ledger is "
            "refused: a file, or a program.", Kind({"anyOf": [_STRING, ANCHOR.form]}, _anchor), '"/safe/anchor"',
            "none"),
        Key("must_exist", "A ledger that is gone is refused, not made anew.", _FLAG, "true", "false"),
        Key("analysts", 'Quotas in ε by analyst; "*" is everybody else together.',
            Kind(_each(_EPSILON.form, "Quotas by name."), _quotas), '{ marketing = 0.5, "*" = 0.2 }', "none"),
        Key("renew", "Whether each calendar month has the totals for itself: the steward's decision, and no theorem.",
            _choice(get_args(model.Renewal)), '"monthly"', '"never"'),
    ),
    make=model.Budget,
    check=checks.budget,
    later=("share",),
)  # fmt: skip


# ---------------------------------------------------------------- [privacy], [engine], [backend], [data]

_LIMITS = (
    Key("max_rows", "One unit counts for at most this many rows in a query; a query may name another limit. "
        '"auto": each query chooses one; { most = 500 }: it chooses, or names, at most that.',
        _LIMIT, "20", "a query that needs one chooses it"),
    Key("max_rows_per_group", "One unit counts for at most this many rows in one group.", _LIMIT, "5", "max_rows"),
    Key("max_groups", "One unit shows up in at most this many groups; needed where keys aren't public.",
        _LIMIT, "4", "a query that needs one chooses it"),
)  # fmt: skip

PRIVACY = Part(
    "privacy",
    "What neighbours are, and how much one unit may contribute to an answer.",
    (
        Key("adjacency", "Neighbours differ by all rows of one unit: added or removed, or replaced by another unit's.",
            _choice(get_args(model.Adjacency)), '"add_remove"', '"add_remove"'),
        *_LIMITS,
        Key("min_units", "Groups with fewer units, noisily counted, are withheld.", _COUNT, "10", "none are"),
        Key("limits_share", "The part of a query's ε for counts of units: they choose limits which nobody named, and "
            "tell what limits cut. 0 buys none: a number that a limit may have cut is then a lower bound.",
            _share("0.5", "write share = 0.1", least=Decimal(0)), "0.2",
            "0.25 for ε up to 0.3, 0.2 up to 1, 0.1 above; under zcdp, of ρ, 0.1 up to ε = 1, 0.05 above"),
        Key("keys_share", "The part of what a query has left for its answer that finds keys which aren't public; the "
            "rest measures them.", _share("0.95", "write keys_share = 0.5, or leave it out"), "0.5",
            "what is expected to be off by least"),
        Key("mechanism", "The noise that is drawn; auto takes what is off by less.", _choice(ASKED_FOR),
            '"auto"', '"auto"'),
    ),
    make=model.Privacy,
)  # fmt: skip

ENGINE = Part(
    "engine",
    "What the engine may take of the machine. The environment may replace the limits: DPSQL_ENGINE_TIMEOUT and so on.",
    (
        Key("timeout", "What all statements of a query together may take; seconds, or a text like 90s, 10m, 2h.",
            _parsed({"anyOf": [{"type": "number", "minimum": 0.001, "maximum": settings.MAX_SECONDS},
                               {"type": "string", "pattern": r"^\s*[\d.]+\s*(ms|s|m|h|d)?\s*$"}]},
                    settings.read_timeout), '"10m"', '"30m"'),
        Key("memory", "Memory, as a size or a share of the machine's.", _parsed(_SIZE, settings.read_memory),
            '"4GB"', '"75%"'),
        Key("threads", "Threads that a statement may use.",
            _parsed({"type": "integer", "minimum": 1, "maximum": settings.MAX_THREADS}, settings.read_threads), "4",
            "one for each processor"),
        Key("spill", 'What may be written to disk at most; "0GB" is nothing.', _parsed(_SIZE, settings.read_spill),
            '"64GB"', '"64GB"'),
        Key("folder", "Where that is written.", _parsed(_STRING, settings.read_folder), '"/var/tmp"',
            "the system's temporary folder"),
        Key("untested", "What is done with an engine that the proofs were not tested with.",
            _choice(get_args(settings.Untested)), '"refuse"', '"warn"'),
    ),
    make=settings.EngineSettings,
)  # fmt: skip


BACKEND = Part(
    "backend",
    "Which engine reads private rows.",
    (
        Key("kind", "duckdb is part of dpsql, and reads files of this machine. spark is Apache Spark, for data that "
            "one machine doesn't hold (docs/scale.md): private tables are parquet files that this machine and the "
            "cluster see under the same path; queries, prices and answers stay the same.",
            _choice(get_args(settings.BackendKind)), '"spark"', '"duckdb"'),
        Key("url", "Where Spark is: a Spark Connect server, or local[4], which starts one with so many threads.",
            _parsed({"type": "string", "pattern": r"^(sc://.+|local\[(\d+|\*)\])$"}, settings.read_url),
            '"sc://spark.example:15002"', "needed for spark"),
        Key("skewed", "Whether some units have very many groups, thousands of times what others have. Then what a unit "
            "has in each group is gathered in many tasks, and each passes on no more groups than a unit may keep: the "
            "same integers, with one exchange more.",
            _FLAG, "true", "false"),
    ),
    make=settings.BackendSettings,
    check=checks.backend,
)  # fmt: skip

DATA = Part(
    "data",
    "What becomes of data that changes.",
    (
        Key("on_change", "What a query does that finds a source written anew, or promises that nobody has verified for "
            "the data as it is. refuse: it waits for `dpsql refresh --steward`. accept: it goes on by itself: what is "
            "there is a new version, equal rows or not, and its promises are verified first. When data are written "
            "must not depend on a single unit then.",
            _choice(get_args(model.OnChange)), '"accept"', '"refuse"'),
    ),
    make=model.Data,
)  # fmt: skip


# ---------------------------------------------------------------- [tables.<table>.columns.<column>]


def _type(section: Section, key: str) -> str | None:
    written = section.text(key)
    return None if written is None else section.attempt(key, lambda _: column_type(written))


def _reference(section: Section, key: str) -> model.Reference | None:
    if (target := section.text(key)) is None:
        return None
    table, _, column = target.rpartition(".")
    if not table or not column:
        section.wrong(key, f"{show(target)} is not table.column", hint='references = "nation.n_nationkey"')
        return None
    return model.Reference(table, column)


def _column(*, bounds: str | None = None, share: Fraction | None = None, **fields: Any) -> model.Column:
    return model.Column(**fields, share=None if bounds is None else share or DEFAULT_SHARE)


_SHARE = _share("0.5", "write share = 0.1")

COLUMN = Part(
    "tables.<table>.columns.<column>",
    "What is publicly known of a column. Columns that aren't listed can be used (not those of a private CSV file); "
    "they have no range and no public keys.",
    (
        Key("type", "The type it is read as. Every listed column of a private CSV table needs one: guessing would "
            "depend on the rows.", Kind(_STRING, _type), '"INTEGER"', "the file's own"),
        Key("min", "The least value; smaller ones count as this. SUM and AVG need a range.",
            _of_the_type(_NUMBER_OR_DATE, read_bound), "0", "none"),
        Key("max", "The greatest value; larger ones count as this.",
            _of_the_type(_NUMBER_OR_DATE, read_bound), "500", "none"),
        Key("values", "All public values: each is shown as a group, others are left out of GROUP BY.",
            _of_the_type({"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1,
                          "uniqueItems": True}, read_values), '["A", "B"]', "none"),
        Key("references", "The column of a public table that lists the public values.",
            Kind({"type": "string", "pattern": r"^.+\..+$"}, _reference), '"nation.n_nationkey"', "none"),
        Key("private", "It may not be a group key.", _FLAG, "true", "false"),
        Key("nullable", "false promises that it is never NULL; `dpsql check --steward` verifies it.",
            Kind(_FLAG.form, partial(Section.flag, default=True)), "false", "true"),
        Key("bounds", "The range is found privately, once, by the first query that needs it.", _choice(("auto",)),
            '"auto"', "none"),
        Key("share", 'The part of that query\'s ε that `bounds = "auto"` may take.',
            Kind(_SHARE.form, lambda column, key: _SHARE.read(column, key) if "bounds" in column.entries else None),
            "0.1", "0.1"),
    ),
    make=_column,
    check=checks.column,
)  # fmt: skip


# ---------------------------------------------------------------- [tables.<table>]

_PAIRS_HINT = 'columns here = columns of its key: on = { order_id = "id" }'


def _pairs(section: Section, key: str) -> tuple[tuple[str, str], ...] | None:
    """Columns here, each with the column there that it equals."""
    on = section.section(key)
    if on.readable and not on.entries:
        section.missing(key, hint=_PAIRS_HINT)
    pairs = [(here, there) for here in on.entries if (there := on.text(here)) is not None]
    if len({here.lower() for here in on.entries}) < len(on.entries):
        section.wrong(key, "names a column twice", hint="names are case-insensitive; name each column once")
    return tuple(pairs) if pairs and len(pairs) == len(on.entries) else None


UNIT_COLUMN = Part(
    "tables.<table>.unit",
    "The unit is told by a column.",
    (
        Key("column", "The column whose value says whom a row belongs to.", _TEXT, '"person_id"',
            needed='unit = { column = "person_id" }'),
        Key("domain", "Whose ids these are: equal ids of different domains are different units.", _TEXT, '"doctor"',
            "one domain for all tables"),
    ),
    make=lambda column, domain="": model.ColumnUnit(column, domain.lower()),
)  # fmt: skip

UNIT_LINK = Part(
    "tables.<table>.unit",
    "The unit is that of the row of another table to which a row points.",
    (
        Key("through", "The table that knows the owner; it has a key.", _TEXT, '"orders"',
            needed='the table that knows the owner: through = "orders"'),
        Key("on", "Columns here, and the columns of that table's key which they equal.",
            Kind(_each(_STRING, "column here = column there", least=1), _pairs), '{ l_orderkey = "o_orderkey" }',
            needed=_PAIRS_HINT),
    ),
    make=model.LinkedUnit,
)  # fmt: skip


def _unit(table: Section, key: str) -> Any:
    """Whom a table's rows belong to: a unit of the model; nobody where the table is public."""
    written = table.entries[key]
    if table.values.get("public"):
        return None
    if isinstance(written, str):
        name = table.text(key)
        if name is not None and name != "row" and name.lower() == "row":
            hint = 'unit = "row" if each row is a unit, unit = { column = "row" } for a column of that name'
            table.wrong(key, f"{show(name)} could mean two things", hint=hint)
        return None if name is None else model.RowUnit() if name == "row" else model.ColumnUnit(name)
    if not isinstance(written, Mapping):
        table.wrong(key, f"must be a column's name, not {show(written)}", hint='unit = "person_id"')
        return None
    if "through" in written:
        return UNIT_LINK.read(table.section(key, UNIT_LINK.names))
    section = table.section(key, (*UNIT_COLUMN.names, *UNIT_LINK.names))
    if "on" in section.entries:
        section.missing("through", hint='the table that knows the owner: through = "orders"')
        return None
    return UNIT_COLUMN.read(section)


def _table(**fields: Any) -> model.Table:
    limits = {key: fields.pop(key) for key in model.LIMITS if key in fields}
    return model.Table(**fields, limits=MappingProxyType(limits))


TABLE = Part(
    "tables.<table>",
    "One table that SQL may name. A table that the policy doesn't name doesn't exist.",
    (
        Key("source", "A parquet, CSV or DuckDB file, or a glob, relative to the policy; delta:folder or "
            "iceberg:catalog.namespace.table; on Spark also a table of its catalog, db.table. May be left out for "
            "objects from Python.", _TEXT, '"visits/*.parquet"'),
        Key("table", "Which table of a .duckdb file.", _TEXT, '"main.orders"'),
        Key("separator", "What stands between the fields of a CSV file.", _choice(model.SEPARATORS), '";"',
            "a comma; in .tsv files a tab"),
        Key("public", "Everybody may see all of it, and no noise protects it.", _FLAG, "true", "false"),
        Key("unit", 'Who is protected: a column\'s name, or "row" if each row is a unit of its own. Needed unless the '
            "table is public.", Kind({"anyOf": [_STRING, UNIT_COLUMN.form, UNIT_LINK.form]}, _unit), '"person_id"'),
        Key("rows_per_unit", "A promise: no unit has more rows than this; `dpsql check --steward` verifies it.", _COUNT,
            "1", "none"),
        Key("key", "A promise: these columns together are unique; `dpsql check --steward` verifies it. Other tables "
            "find their owners by it.", _NAMES, '"order_id"', "none"),
        *(Key(k.name, f"{k.text} Comes before [privacy] {k.name}; of several tables in a query the largest holds.",
              k.kind, k.example, f"[privacy] {k.name}") for k in _LIMITS),
        Key("columns", "What is publicly known of its columns.", COLUMN.by_name("Columns by name."),
            "{ age = { min = 0, max = 120 } }", "nothing"),
    ),
    make=_table,
    check=checks.table,
    later=("share",),
)  # fmt: skip


# ---------------------------------------------------------------- the policy

_TABLES_HINT = 'name the data: [tables.people] source = "people.parquet", unit = "person_id"'

POLICY = Part(
    "",
    "A dpsql policy: who is protected, what is publicly known, and what may be spent.",
    (
        Key("budget", BUDGET.text, BUDGET.inside(), "", needed="[budget] epsilon = 3"),
        Key("privacy", PRIVACY.text, PRIVACY.inside(), ""),
        Key("engine", ENGINE.text, ENGINE.inside(), ""),
        Key("backend", BACKEND.text, BACKEND.inside(), ""),
        Key("data", DATA.text, DATA.inside(), ""),
        Key("tables", "The tables that SQL may name.", TABLE.by_name("Tables by name.", _TABLES_HINT), "",
            needed=_TABLES_HINT),
    ),
    make=Policy,
)  # fmt: skip

PARTS = (BUDGET, ANCHOR, PRIVACY, ENGINE, BACKEND, DATA, TABLE, UNIT_COLUMN, UNIT_LINK, COLUMN)


def read(policy: object, *, path: Path | None, base: Path | None, sources: Iterable[str] | None) -> Policy:
    """The policy, or one PolicyError with all its mistakes."""
    mistakes: list[PolicyError] = []
    top = Section("", policy, mistakes, POLICY.names)
    if top.readable:
        top.entries.setdefault("budget", {})  # what is missing is its ε
    loaded: Policy | None = POLICY.read(top, path=path, base=base)
    if top.readable:
        checks.tables(top, None if sources is None else {name.lower(): name for name in sources})
    if mistakes or loaded is None:
        raise _all(mistakes)
    for table in loaded.tables.values():
        if (table.unit is None) != table.public:
            raise AssertionError(f"{table.name}: a table is public, or its rows have owners")
    return loaded


def _all(mistakes: list[PolicyError]) -> PolicyError:
    if len(mistakes) == 1:
        return mistakes[0]
    hints = [f"{mistake.message.split(': ')[0]}: {mistake.hint}" for mistake in mistakes if mistake.hint]
    return PolicyError(
        "\n".join(mistake.message for mistake in mistakes), code=mistakes[0].code, hint="\n".join(hints) or None
    )


def from_environment(engine: settings.EngineSettings, environment: Mapping[str, str]) -> settings.EngineSettings:
    """The settings with those replaced that the environment names (DPSQL_ENGINE_TIMEOUT and so on): facts of a machine.

    What is done with an untested engine is the policy's word alone.
    """
    keys = {f"DPSQL_ENGINE_{key.name.upper()}": key for key in ENGINE.keys if key.name != "untested"}
    values: dict[str, Any] = {}
    for name, key in keys.items():
        if not (text := environment.get(name)):
            continue
        mistakes: list[PolicyError] = []
        values[key.name] = key.kind.read(Section("", {key.name: text}, mistakes), key.name)
        for mistake in mistakes:
            what = mistake.message.removeprefix(f"{key.name}: ")
            hint = f"for instance {name}={key.example.strip(chr(34))}, or unset it"
            raise PolicyError(f"{name}: {what}", code="bad-value", hint=hint)
    if "folder" in values:
        values["folder"] = values["folder"].absolute()
    return replace(engine, **values) if values else engine
