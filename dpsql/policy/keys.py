"""Every key of a policy file, declared once: the reader knows no others, docs/policy.md and the JSON Schema are made
of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.core.frozen import dataclass
from dpsql.core.limit import AUTO
from dpsql.mechanisms.registry import ASKED_FOR
from dpsql.policy.model import SEPARATORS, Accountant, Adjacency, OnChange, Renewal
from dpsql.policy.reader import LARGEST_LIMIT
from dpsql.policy.settings import BackendKind, Untested

ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")
ACCOUNTANTS: tuple[Accountant, ...] = ("basic", "zcdp")
RENEWALS: tuple[Renewal, ...] = ("never", "monthly")
ON_CHANGE: tuple[OnChange, ...] = ("refuse", "accept")
UNTESTED: tuple[Untested, ...] = ("warn", "refuse")
BACKENDS: tuple[BackendKind, ...] = ("duckdb", "spark")

Form = Mapping[str, Any]
"""A JSON Schema of what may be written."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what it says, in a sentence; what may be written; what holds where it isn't there."""

    name: str
    text: str
    form: Form
    example: str
    default: str = ""
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A section of a policy file: the keys that it may have. path: as TOML writes it, <name> for names to choose."""

    path: str
    text: str
    keys: tuple[Key, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(key.name for key in self.keys)

    @property
    def form(self) -> dict[str, Any]:
        """Its JSON Schema."""
        needed = [key.name for key in self.keys if key.needed]
        properties = {key.name: {"description": key.text, **key.form} for key in self.keys}
        form: dict[str, Any] = {"type": "object", "description": self.text, "properties": properties}
        return form | ({"required": needed} if needed else {}) | {"additionalProperties": False}


def _choice(options: tuple[str, ...]) -> Form:
    return {"enum": list(options)}


def _each(form: Form, text: str, least: int = 0) -> Form:
    """A table whose keys are names to choose, with at least so many of them."""
    more = {"minProperties": least} if least else {}
    return {**more, "type": "object", "description": text, "additionalProperties": form}


_TEXT: Form = {"type": "string", "minLength": 1}
_FLAG: Form = {"type": "boolean"}
_COUNT: Form = {"type": "integer", "minimum": 1, "maximum": LARGEST_LIMIT}
_LIMIT: Form = {
    "anyOf": [
        _COUNT,
        {"enum": [AUTO]},
        {"type": "object", "properties": {"most": _COUNT}, "required": ["most"], "additionalProperties": False},
    ]
}
_EPSILON: Form = {"type": "number", "minimum": 1e-6, "maximum": 1e12}
_DELTA: Form = {"type": "number", "minimum": 0, "exclusiveMaximum": 1e-3}
_NAMES: Form = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}]}
_VALUE: Form = {"type": ["string", "number", "boolean"]}
_BOUND: Form = {"type": ["number", "string"]}  # editors take TOML's dates for strings
_SIZE: Form = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*([KMGTkmgt][iI]?[bB]|%)\s*$"}

ANCHOR = Part(
    "budget.anchor",
    "A program that keeps the account's head.",
    (Key("command", "The program and its arguments.", {"type": "array", "items": {"type": "string"}, "minItems": 1},
         '["keep-head", "dpsql"]', needed=True),),
)  # fmt: skip

BUDGET = Part(
    "budget",
    "What may be spent, and on which account.",
    (
        Key("epsilon", "The total ε that may ever be spent, over the life of the ledger: how much all answers together "
            "may tell of one unit.", _EPSILON, "3", needed=True),
        Key("delta", "The total δ: the probability that the promise of ε doesn't hold. 0 is pure DP; keys that aren't "
            "public, and Gaussian noise, need more than 0, and far less than 1 / number of units.",
            _DELTA, "1e-6", "0"),
        Key("query_epsilon", "What a query spends when it names no ε.", _EPSILON, "0.3",
            "a query must name its ε"),
        Key("max_query_epsilon", "What one query may spend at most.", _EPSILON, "1", "the whole budget"),
        Key("accountant", "How spends add up: sums of ε and δ, or zero-concentrated DP, better from a dozen or two "
            "queries on.", _choice(ACCOUNTANTS), '"basic"', '"basic"'),
        Key("ledger", "The file of the account, relative to the policy.", _TEXT, '"ledger.sqlite"',
            "<policy>.ledger.sqlite beside the policy"),
        Key("anchor", "Where the account's head is noted as well, so that a restored older copy of the ledger is "
            "refused: a file, or a program.", {"anyOf": [_TEXT, ANCHOR.form]}, '"/safe/anchor"', "none"),
        Key("must_exist", "A ledger that is gone is refused, not made anew.", _FLAG, "true", "false"),
        Key("analysts", 'Quotas in ε by analyst; "*" is everybody else together.',
            _each(_EPSILON, "Quotas by name."), '{ marketing = 0.5, "*" = 0.2 }', "none"),
        Key("renew", "Whether each calendar month has the totals for itself: the steward's decision, and no theorem.",
            _choice(RENEWALS), '"monthly"', '"never"'),
    ),
)  # fmt: skip

_LIMITS = (
    Key("max_rows", "One unit counts for at most this many rows in a query; a query may name another limit. "
        '"auto": each query chooses one; { most = 500 }: it chooses, or names, at most that.',
        _LIMIT, "20", "a query that needs one chooses it"),
    Key("max_rows_per_group", "One unit counts for at most this many rows in one group.", _LIMIT, "5", "max_rows"),
    Key("max_groups", "One unit shows up in at most this many groups; needed where keys aren't public.",
        _LIMIT, "4", "a query that needs one chooses it"),
)  # fmt: skip
LIMITS = tuple(key.name for key in _LIMITS)

PRIVACY = Part(
    "privacy",
    "What neighbours are, and how much one unit may contribute to an answer.",
    (
        Key("adjacency", "Neighbours differ by all rows of one unit: added or removed, or replaced by another unit's.",
            _choice(ADJACENCIES), '"add_remove"', '"add_remove"'),
        *_LIMITS,
        Key("min_units", "Groups with fewer units, noisily counted, are withheld.", _COUNT, "10", "none are"),
        Key("limits_share", "The part of a query's ε for counts of units: they choose limits which nobody named, and "
            "tell what limits cut. 0 buys none: a number that a limit may have cut is then a lower bound.",
            {"type": "number", "minimum": 0, "maximum": 0.5}, "0.2",
            "0.25 for ε up to 0.3, 0.2 up to 1, 0.1 above; under zcdp, of ρ, 0.1 up to ε = 1, 0.05 above"),
        Key("keys_share", "The part of what a query has left for its answer that finds keys which aren't public; the "
            "rest measures them.", {"type": "number", "minimum": 0.001, "maximum": 0.95}, "0.5",
            "what is expected to be off by least"),
        Key("mechanism", "The noise that is drawn; auto takes what is off by less.", _choice(ASKED_FOR),
            '"auto"', '"auto"'),
    ),
)  # fmt: skip

ENGINE = Part(
    "engine",
    "What the engine may take of the machine. The environment may replace the limits: DPSQL_ENGINE_TIMEOUT and so on.",
    (
        Key("timeout", "What all statements of a query together may take; seconds, or a text like 90s, 10m, 2h.",
            {"anyOf": [{"type": "number", "minimum": 0.001, "maximum": 2592000},
                       {"type": "string", "pattern": r"^\s*[\d.]+\s*(ms|s|m|h|d)?\s*$"}]}, '"10m"', '"30m"'),
        Key("memory", "Memory, as a size or a share of the machine's.", _SIZE, '"4GB"', '"75%"'),
        Key("threads", "Threads that a statement may use.", {"type": "integer", "minimum": 1, "maximum": 1024}, "4",
            "one for each processor"),
        Key("spill", 'What may be written to disk at most; "0GB" is nothing.', _SIZE, '"64GB"', '"64GB"'),
        Key("folder", "Where that is written.", _TEXT, '"/var/tmp"', "the system's temporary folder"),
        Key("untested", "What is done with an engine that the proofs were not tested with.", _choice(UNTESTED),
            '"refuse"', '"warn"'),
    ),
)  # fmt: skip

BACKEND = Part(
    "backend",
    "Which engine reads private rows.",
    (
        Key("kind", "duckdb is part of dpsql, and reads files of this machine. spark is Apache Spark, for data that "
            "one machine doesn't hold (docs/scale.md): private tables are parquet files that this machine and the "
            "cluster see under the same path; queries, prices and answers stay the same.",
            _choice(BACKENDS), '"spark"', '"duckdb"'),
        Key("url", "Where Spark is: a Spark Connect server, or local[4], which starts one with so many threads.",
            {"type": "string", "pattern": r"^(sc://.+|local\[(\d+|\*)\])$"}, '"sc://spark.example:15002"',
            "needed for spark"),
        Key("skewed", "Whether some units have very many groups, thousands of times what others have. Then what a unit "
            "has in each group is gathered in many tasks, and each passes on no more groups than a unit may keep: the "
            "same integers, with one exchange more.",
            _FLAG, "true", "false"),
    ),
)  # fmt: skip

DATA = Part(
    "data",
    "What becomes of data that changes.",
    (
        Key("on_change", "What a query does that finds a source written anew, or promises that nobody has verified for "
            "the data as it is. refuse: it waits for `dpsql refresh --steward`. accept: it goes on by itself: what is "
            "there is a new version, equal rows or not, and its promises are verified first. When data are written "
            "must not depend on a single unit then.",
            _choice(ON_CHANGE), '"accept"', '"refuse"'),
    ),
)  # fmt: skip

UNIT_COLUMN = Part(
    "tables.<table>.unit",
    "The unit is told by a column.",
    (
        Key("column", "The column whose value says whom a row belongs to.", _TEXT, '"person_id"', needed=True),
        Key("domain", "Whose ids these are: equal ids of different domains are different units.", _TEXT, '"doctor"',
            "one domain for all tables"),
    ),
)  # fmt: skip

UNIT_LINK = Part(
    "tables.<table>.unit",
    "The unit is that of the row of another table to which a row points.",
    (
        Key("through", "The table that knows the owner; it has a key.", _TEXT, '"orders"', needed=True),
        Key("on", "Columns here, and the columns of that table's key which they equal.",
            _each(_TEXT, "column here = column there", least=1), '{ l_orderkey = "o_orderkey" }',
            needed=True),
    ),
)  # fmt: skip

COLUMN = Part(
    "tables.<table>.columns.<column>",
    "What is publicly known of a column. Columns that aren't listed can be used (not those of a private CSV file); "
    "they have no range and no public keys.",
    (
        Key("type", "The type it is read as. Every listed column of a private CSV table needs one: guessing would "
            "depend on the rows.", _TEXT, '"INTEGER"', "the file's own"),
        Key("min", "The least value; smaller ones count as this. SUM and AVG need a range.", _BOUND, "0", "none"),
        Key("max", "The greatest value; larger ones count as this.", _BOUND, "500", "none"),
        Key("values", "All public values: each is shown as a group, others are left out of GROUP BY.",
            {"type": "array", "items": _VALUE, "minItems": 1, "uniqueItems": True}, '["A", "B"]', "none"),
        Key("references", "The column of a public table that lists the public values.",
            {"type": "string", "pattern": r"^.+\..+$"}, '"nation.n_nationkey"', "none"),
        Key("private", "It may not be a group key.", _FLAG, "true", "false"),
        Key("nullable", "false promises that it is never NULL; `dpsql check --steward` verifies it.", _FLAG, "false",
            "true"),
        Key("bounds", "The range is found privately, once, by the first query that needs it.", _choice(("auto",)),
            '"auto"', "none"),
        Key("share", 'The part of that query\'s ε that `bounds = "auto"` may take.',
            {"type": "number", "minimum": 0.001, "maximum": 0.5}, "0.1", "0.1"),
    ),
)  # fmt: skip

TABLE = Part(
    "tables.<table>",
    "One table that SQL may name. A table that the policy doesn't name doesn't exist.",
    (
        Key("source", "A parquet, CSV or DuckDB file, or a glob, relative to the policy; delta:folder or "
            "iceberg:catalog.namespace.table; on Spark also a table of its catalog, db.table. May be left out for "
            "objects from Python.", _TEXT, '"visits/*.parquet"'),
        Key("table", "Which table of a .duckdb file.", _TEXT, '"main.orders"'),
        Key("separator", "What stands between the fields of a CSV file.", _choice(SEPARATORS), '";"',
            "a comma; in .tsv files a tab"),
        Key("public", "Everybody may see all of it, and no noise protects it.", _FLAG, "true", "false"),
        Key("unit", 'Who is protected: a column\'s name, or "row" if each row is a unit of its own. Needed unless the '
            "table is public.", {"anyOf": [_TEXT, UNIT_COLUMN.form, UNIT_LINK.form]}, '"person_id"'),
        Key("rows_per_unit", "A promise: no unit has more rows than this; `dpsql check --steward` verifies it.", _COUNT,
            "1", "none"),
        Key("key", "A promise: these columns together are unique; `dpsql check --steward` verifies it. Other tables "
            "find their owners by it.", _NAMES, '"order_id"', "none"),
        *(Key(k.name, f"{k.text} Comes before [privacy] {k.name}; of several tables in a query the largest holds.",
              k.form, k.example, f"[privacy] {k.name}") for k in _LIMITS),
        Key("columns", "What is publicly known of its columns.", _each(COLUMN.form, "Columns by name."),
            "{ age = { min = 0, max = 120 } }", "nothing"),
    ),
)  # fmt: skip

POLICY = Part(
    "",
    "A dpsql policy: who is protected, what is publicly known, and what may be spent.",
    (
        Key("budget", BUDGET.text, BUDGET.form, "", needed=True),
        Key("privacy", PRIVACY.text, PRIVACY.form, ""),
        Key("engine", ENGINE.text, ENGINE.form, ""),
        Key("backend", BACKEND.text, BACKEND.form, ""),
        Key("data", DATA.text, DATA.form, ""),
        Key("tables", "The tables that SQL may name.", _each(TABLE.form, "Tables by name.", least=1), "",
            needed=True),
    ),
)  # fmt: skip

PARTS = (BUDGET, ANCHOR, PRIVACY, ENGINE, BACKEND, DATA, TABLE, UNIT_COLUMN, UNIT_LINK, COLUMN)
