"""Google's differential privacy in SQL: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(…), and contribution bounds.

Neither is part of DuckDB's SQL. Both are lifted out of the tokens before the parser sees them, so that every other
token keeps its place in the text; afterwards they are attached to the nodes that they were written for: a SELECT
knows its privacy_unit_column, and an aggregate its Bounds. No pass of rewrite: at first there is no tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.core.errors import Span, SQLError, nearest
from dpsql.core.frozen import dataclass
from dpsql.policy.reader import exact_decimal
from dpsql.sql.nodes import is_aggregate
from dpsql.sql.trees import nodes, nodes_of

UNIT_COLUMN = "privacy_unit_column"  # in the meta of a SELECT: the column that its clause names
BOUNDS = "contribution_bounds"  # in the meta of an aggregate
STRATEGY, PUBLIC = "group_selection_strategy", "PUBLIC_GROUPS"
Offsets = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the clause: as it is written, its value, and where that stands."""

    written: str
    value: str | int
    place: Offsets


@dataclass(frozen=True, slots=True)
class Bounds:
    """contribution_bounds_per_row clips each row's value; _per_group clips what a unit's rows in a group add up to."""

    per: Literal["row", "group"]
    low: Fraction
    high: Fraction
    text: str = field(compare=False)  # for explain
    place: Offsets = field(compare=False)


@dataclass(frozen=True, slots=True)
class Lifted:
    """What is left for the parser, and what was lifted out of it."""

    tokens: list[Token]
    options: Mapping[str, Option]  # by our own names
    columns: tuple[exp.Column | None, ...]  # each clause's privacy_unit_column
    bounds: Mapping[int, Bounds]  # by the offset of the call's name


def lift(text: str, tokens: Sequence[Token]) -> Lifted:
    """Take the clauses and the contribution bounds out of a query's tokens."""
    return _Lifter(text, tokens).lift()


def attach(text: str, root: exp.Query, lifted: Lifted) -> None:
    """Give what was lifted to the SELECTs and the aggregates that it was written for. Nothing is left over."""
    for select in nodes_of(root, exp.Select):
        hint = select.args.get("hint")
        if hint is not None:
            column = lifted.columns[int(hint.expressions[0].name.rpartition("_")[2])]
            select.set("hint", None)
            if column is not None:
                select.meta[UNIT_COLUMN] = column
    waiting = dict(lifted.bounds)
    for node in nodes(root):
        if is_aggregate(node) and (found := waiting.pop(node.meta.get("start", -1), None)) is not None:
            node.meta[BOUNDS] = found
    for bounds in waiting.values():
        raise _error(
            text,
            bounds.place,
            f"{_BOUNDS[bounds.per]} belongs to an aggregate",
            "contribution-bounds",
            f"write SUM(x, {bounds.text})",
        )


# ---------------------------------------------------------------- what can be said

_Kind = Literal["number", "whole", "word", "column"]
_OPTIONS: dict[str, tuple[str, _Kind]] = {  # as written: our name, and what its value is
    "epsilon": ("epsilon", "number"),
    "delta": ("delta", "number"),
    "max_rows_contributed": ("max_rows", "whole"),
    "max_rows": ("max_rows", "whole"),
    "max_rows_per_group": ("max_rows_per_group", "whole"),
    "max_groups_contributed": ("max_groups", "whole"),
    "max_groups": ("max_groups", "whole"),
    "mechanism": ("mechanism", "word"),
    STRATEGY: (STRATEGY, "word"),
    UNIT_COLUMN: (UNIT_COLUMN, "column"),
}
_ELSEWHERE = {  # Google's, and not the analyst's to choose here
    "min_privacy_units_per_group": "leave it out: the policy decides that, [privacy] min_units",
    "k_threshold": "leave it out: thresholds follow from δ; the policy may ask for more, [privacy] min_units",
    "kappa": "write max_groups_contributed",
}
_STRATEGIES = ("LAPLACE_THRESHOLD", PUBLIC)
_BOUNDS: dict[Literal["row", "group"], str] = {
    "row": "contribution_bounds_per_row",
    "group": "contribution_bounds_per_group",
}
_CLAUSE = "differential_privacy"
_WORDS = (TokenType.VAR, TokenType.IDENTIFIER)
_EXAMPLE = "write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) …"


class _Lifter:
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.kept: list[Token] = []
        self.opened: list[int] = []  # the open brackets among those kept
        self.options: dict[str, Option] = {}
        self.columns: list[exp.Column | None] = []
        self.bounds: dict[int, Bounds] = {}

    def lift(self) -> Lifted:
        i = 0
        while i < len(self.tokens):
            token, after = self.tokens[i], self.token(i + 1)
            if token.token_type is TokenType.WITH and self.kept and self.kept[-1].token_type is TokenType.SELECT:
                i = self.clause(i)
                continue
            if after is not None and after.token_type is TokenType.FARROW and self.is_bounds(token):
                i = self.argument(i)
                continue
            if token.token_type is TokenType.L_PAREN:
                self.opened.append(len(self.kept))
            elif token.token_type is TokenType.R_PAREN and self.opened:
                self.opened.pop()
            self.kept.append(token)
            i += 1
        return Lifted(self.kept, self.options, tuple(self.columns), self.bounds)

    def token(self, i: int) -> Token | None:
        return self.tokens[i] if i < len(self.tokens) else None

    def expect(self, i: int, kind: TokenType, what: str, hint: str) -> Token:
        token = self.token(i)
        if token is None or token.token_type is not kind:
            place = self.tokens[min(i, len(self.tokens) - 1)]
            raise _error(self.text, _place(place), f"the SQL can't be parsed: expected {what} here", "syntax", hint)
        return token

    # ---------------------------------------------------------------- SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(…)

    def clause(self, i: int) -> int:
        """From WITH to the bracket that closes OPTIONS; a hint that counts the clauses stands for it."""
        name, options = self.token(i + 1), self.token(i + 2)
        if name is None or name.text.lower() != _CLAUSE:
            place = self.tokens[i] if name is None else name
            message = "after SELECT WITH only DIFFERENTIAL_PRIVACY can follow"
            raise _error(self.text, _place(place), message, "syntax", _EXAMPLE)
        first, column = self.tokens[i], None
        hint = Token(TokenType.HINT, "", first.line, first.col, first.start, first.end, [f"n_{len(self.columns)}"])
        self.kept.append(hint)
        i += 2
        if options is not None and options.text.lower() == "options":
            self.expect(i + 1, TokenType.L_PAREN, "(", _EXAMPLE)
            i += 2
            while (token := self.token(i)) is not None and token.token_type is not TokenType.R_PAREN:
                i, found = self.option(i)
                if found is not None and column is not None:
                    message = "privacy_unit_column stands twice in one clause"
                    raise _error(self.text, _place(token), message, "conflicting-options", "leave one of them out")
                column = found or column
                if (token := self.token(i)) is None or token.token_type is not TokenType.COMMA:
                    break
                i += 1
            self.expect(i, TokenType.R_PAREN, ") or a comma", _EXAMPLE)
            i += 1
        self.columns.append(column)
        return i

    def option(self, i: int) -> tuple[int, exp.Column | None]:
        """One `name = value`; i after it, and the column if it names one."""
        token = self.tokens[i]
        written = token.text.lower()
        if written not in _OPTIONS:
            near = nearest(written, tuple(_OPTIONS))
            hint = f"did you mean {near}?" if near else f"options are {', '.join(_OPTIONS)}"
            raise _error(
                self.text,
                _place(token),
                f"there is no option {token.text}",
                "unknown-option",
                _ELSEWHERE.get(written, hint),
            )
        name, kind = _OPTIONS[written]
        self.expect(i + 1, TokenType.EQ, "=", f"write {written} = {_examples[kind]}")
        start = i = i + 2
        depth = 0
        while i < len(self.tokens):
            found = self.tokens[i].token_type
            if depth == 0 and found in (TokenType.COMMA, TokenType.R_PAREN):
                break
            depth += (found is TokenType.L_PAREN) - (found is TokenType.R_PAREN)
            i += 1
        value = self.tokens[start:i]
        if not value:
            self.expect(start, TokenType.VAR, "a value", f"write {written} = {_examples[kind]}")
        if kind == "column":
            return i, self.column(value)
        self.state(name, Option(written, self.value(value, written, kind), _between(value)))
        return i, None

    def value(self, tokens: Sequence[Token], written: str, kind: _Kind) -> str | int:
        number = "".join(t.text for t in tokens)
        if kind == "word" and len(tokens) == 1 and tokens[0].token_type in (*_WORDS, TokenType.STRING):
            word = tokens[0].text
            if written != STRATEGY:
                return word.lower()
            if word.upper() not in _STRATEGIES:
                near = nearest(word, _STRATEGIES)
                raise _error(
                    self.text,
                    _between(tokens),
                    f"there is no group_selection_strategy {word}",
                    "unknown-option",
                    f"did you mean {near}?" if near else f"strategies are {' and '.join(_STRATEGIES)}",
                )
            return word.upper()
        if kind != "word" and _is_number(tokens):
            whole = kind == "whole" and number.isascii() and number.isdigit() and len(number) < 20
            return int(number) if whole else number
        raise _error(
            self.text,
            _between(tokens),
            f"{written} takes {_KINDS[kind]}",
            "option-value",
            f"write {written} = {_examples[kind]}, or leave it out",
        )

    def state(self, name: str, option: Option) -> None:
        """What is said twice must be the same: it holds for the whole query."""
        said = self.options.setdefault(name, option)
        if not same(said.value, option.value):
            raise _error(
                self.text,
                option.place,
                f"{option.written} = {option.value}, and the query also says {said.written} = {said.value}",
                "conflicting-options",
                "say it once: options hold for the whole query",
            )

    def column(self, tokens: Sequence[Token]) -> exp.Column:
        names, dots = tokens[::2], tokens[1::2]
        named = all(t.token_type in _WORDS for t in names) and all(t.token_type is TokenType.DOT for t in dots)
        if not named or len(tokens) not in (1, 3):
            raise _error(
                self.text,
                _between(tokens),
                "privacy_unit_column takes a column",
                "option-value",
                "write privacy_unit_column = user_id, or leave it out: the policy knows the unit",
            )
        parts = [
            exp.Identifier(this=t.text, quoted=t.token_type is TokenType.IDENTIFIER).update_positions(t) for t in names
        ]
        return exp.Column(this=parts[-1], table=parts[0] if len(parts) == 2 else None)

    # ---------------------------------------------------------------- SUM(x, contribution_bounds_per_row => (0, 100))

    def is_bounds(self, token: Token) -> bool:
        name = token.text.lower()
        if name in _BOUNDS.values():
            return True
        near = nearest(name, tuple(_BOUNDS.values()), cutoff=0.8) if name.startswith("con") else None
        if near is not None:
            hint = f"did you mean {near}?"
            raise _error(self.text, _place(token), f"there is no argument {token.text}", "unknown-option", hint)
        return False

    def argument(self, i: int) -> int:
        """Take an argument out, with the comma before it and the bracket that closes its value; gives what is next."""
        name = self.tokens[i]
        per = next(p for p, written in _BOUNDS.items() if written == name.text.lower())
        hint = f"write SUM(x, {_BOUNDS[per]} => (0, 100))"
        after_value = self.kept[-1].token_type is TokenType.COMMA and self.kept[-2].token_type is not TokenType.L_PAREN
        if not self.opened or self.opened[-1] == 0 or not after_value:
            message = f"{_BOUNDS[per]} comes last in an aggregate, after its value"
            raise _error(self.text, _place(name), message, "contribution-bounds", hint)
        call = self.kept[self.opened[-1] - 1]
        self.kept.pop()
        self.expect(i + 2, TokenType.L_PAREN, "(", hint)
        start = end = i + 3
        while (token := self.token(end)) is not None and token.token_type not in (
            TokenType.R_PAREN, TokenType.L_PAREN,
        ):  # fmt: skip
            end += 1
        self.expect(end, TokenType.R_PAREN, ")", hint)
        inside = self.tokens[start:end]
        comma = next((n for n, t in enumerate(inside) if t.token_type is TokenType.COMMA), len(inside))
        ends = [_number(inside[:comma]), _number(inside[comma + 1 :])]
        place = (name.start, self.tokens[end].end + 1)
        low, high = ends
        if low is None or high is None or low > high:
            message = f"{_BOUNDS[per]} takes two constant numbers, the smaller one first"
            raise _error(self.text, place, message, "contribution-bounds", hint)
        if call.start in self.bounds:
            message = f"{call.text.upper()} takes contribution bounds once, per row or per group"
            raise _error(self.text, place, message, "contribution-bounds", "leave one of them out")
        written = " ".join(self.text[place[0] : place[1]].split())
        self.bounds[call.start] = Bounds(per, low, high, written, place)
        after = self.token(end + 1)
        if after is None or after.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            self.expect(end + 1, TokenType.R_PAREN, ")", hint)
        return end + 1


_KINDS: dict[_Kind, str] = {"number": "a number", "whole": "a whole number", "word": "a name", "column": "a column"}
_examples: dict[_Kind, str] = {"number": "0.5", "whole": "20", "word": "…", "column": "user_id"}


def same(one: object, other: object) -> bool:
    """Do two values of an option say the same? 1 and 1.0 do."""
    a, b = exact_decimal(one), exact_decimal(other)
    return one == other if a is None or b is None else a == b


def _is_number(tokens: Sequence[Token]) -> bool:
    """Digits with perhaps a sign and a point (which is a token of its own before the first digit)."""
    rest = [t for t in tokens if t.token_type not in (TokenType.DASH, TokenType.PLUS, TokenType.DOT)]
    return len(rest) == 1 and rest[0] is tokens[-1] and rest[0].token_type is TokenType.NUMBER


def _number(tokens: Sequence[Token]) -> Fraction | None:
    value = exact_decimal("".join(t.text for t in tokens)) if tokens and _is_number(tokens) else None
    return None if value is None else Fraction(value)


def _place(token: Token) -> Offsets:
    return token.start, token.end + 1


def _between(tokens: Sequence[Token]) -> Offsets:
    return tokens[0].start, tokens[-1].end + 1


def _error(text: str, place: Offsets, message: str, code: str, hint: str) -> SQLError:
    return SQLError(message, code=code, hint=hint, span=Span.of(text, *place))
