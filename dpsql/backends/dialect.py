"""How an engine writes trees: in its own SQL, each primitive of total forms in its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Literal

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.core.frozen import dataclass
from dpsql.sql.as_sql import as_sql
from dpsql.sql.functions.primitives import PRIMITIVES
from dpsql.sql.trees import explicit


class Spelt(Enum):
    """How a primitive is written, where no function is needed to say it."""

    AS_IS = "by its own name"


AS_IS: Literal[Spelt.AS_IS] = Spelt.AS_IS
Spelling = Literal[Spelt.AS_IS] | Callable[..., exp.Expr]
"""By its own name, or what the engine has in its place, made of the arguments."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's SQL: its name for people and for sqlglot, and how it writes each primitive that it has."""

    engine: str
    name: str
    spellings: Mapping[str, Spelling]

    def text(self, query: exp.Query, *, pretty: bool = False) -> str:
        """A statement's text, which says what the tree says: operands in parentheses. The tree is used up.

        Refuses a tree with a primitive that the engine lacks. Functions that are no primitives are the backend's own.
        """
        tree = explicit(query, copy=False, calls=self._spell)
        return as_sql(tree, dialect=self.name, copy=False, pretty=pretty)

    def _spell(self, call: exp.Anonymous) -> None:
        spelling = self.spellings.get(call.this)
        if spelling is AS_IS:
            return
        if spelling is not None:
            call.replace(spelling(*call.expressions))
        elif call.this in PRIMITIVES:
            raise SQLError(
                f"{call.name.upper()} can't be computed by {self.engine}, which this policy's data are read with",
                code="not-on-backend",
                hint="use another function: `dpsql functions` lists them; or compute it in the data once",
            )
