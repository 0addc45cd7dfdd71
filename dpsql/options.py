"""What a query may ask for besides its SQL: the keywords of `Session.query`, and the flags of `dpsql query`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields
from fractions import Fraction
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, Protocol, TypeVar, cast

from dpsql.core.errors import removed
from dpsql.core.frozen import dataclass
from dpsql.core.parameters import Parameters, Values

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Number = str | int | float | Fraction
Limit = int | str  # a whole number, or "auto"


def _option(help: str, metavar: str | None = None, default: Any = None) -> Any:
    return field(default=default, metadata={"help": help, "metavar": metavar})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for, as it was written. None: nothing was said, and the SQL's word or the policy's counts."""

    epsilon: Number | None = _option("What the whole query costs (default: the policy's query_epsilon).", "E")
    delta: Number | None = _option("δ of the query.", "D")
    max_rows: Limit | None = _option('One unit counts for at most N rows; "auto": chosen for a share of ε.', "N")
    max_rows_per_group: Limit | None = _option("… and for at most N in one group.", "N")
    max_groups: Limit | None = _option("… and shows up in at most N groups.", "N")
    mechanism: str | None = _option("The kind of noise.")
    fresh: bool = _option("Pay for new noise where a stored answer would do.", default=False)
    accuracy: Number | None = _option('Spend what this error needs: 100, or "1% of range".', "A")
    confidence: float | None = _option("… with this confidence (default 0.95).", "C")
    params: Parameters | None = _option("A value for $name in the SQL, or for ? and $1 by 1=….", "NAME=VALUE")


REMOVED = {
    "clipping": "leave it out: what limits and ranges cut is part of every answer, in its intervals and in answer.cut; "
    "limits_share in the policy says what that may cost"
}
"""What could be asked for once, and what to do instead."""


class Asked(Protocol[R_co]):
    """A method of a session that takes the SQL, and as keywords what `Request` has fields for."""

    def __call__(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        max_rows: Limit | None = None,
        max_rows_per_group: Limit | None = None,
        max_groups: Limit | None = None,
        mechanism: str | None = None,
        fresh: bool = False,
        accuracy: Number | None = None,
        confidence: float | None = None,
        params: Values | Parameters | None = None,
    ) -> R_co: ...


class Asking(Protocol[R_co]):
    """`Asked`, before it is bound to its session."""

    def __get__(self, session: object, owner: type) -> Asked[R_co]: ...


def asks(method: Callable[[Any, str, Request], R]) -> Asking[R]:
    """A method of a session with the fields of Request for keywords: they become one frozen value here."""

    @wraps(method)
    def call(self: Any, sql: str, **options: Any) -> R:
        for name in options.keys() & REMOVED.keys():
            raise removed(f"{name}=", REMOVED[name])
        values = options.pop("params", None)
        return method(self, sql, Request(**options, params=None if values is None else Parameters.of(values)))

    first = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "sql")]
    keywords = [
        Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type) for f in fields(Request)
    ]
    call.__signature__ = Signature([*first, *keywords])  # type: ignore[attr-defined]  # what editors and help() show
    return cast(Asking[R], call)
