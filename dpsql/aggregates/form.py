"""What the stages ask of an aggregate as SQL writes it. Each fact has a default; a subclass says where it differs."""

from __future__ import annotations

from typing import Literal

from sqlglot import exp

Takes = Literal["anything", "condition", "number", "number or boolean"]
Clips = Literal["values", "sums", "rows", "nothing"]


class Form:
    """An aggregate function of DuckDB: how it is called, and what may be done with a call of it.

    This class by itself is one that works over results alone; for private rows there are `Recipe` (base.py), which is
    answered from statistics, and those that are written as something else.
    """

    name: str  # DuckDB's, in upper case

    @property
    def description(self) -> str:
        """For `dpsql functions`: how it is written, a colon, and what there is to know; "" where it isn't listed."""
        return ""

    # ---- how it is written
    nodes: tuple[type[exp.Expr], ...] = ()  # sqlglot's classes for a call of it
    words: tuple[str, ...] = ()  # by which it is called where sqlglot has no class
    pair: bool = False  # does it take two values?
    takes_shares: bool = False  # is its second argument a share of the rows, or a list of them?
    third_lost: tuple[str, ...] = ()  # words after which the parser loses a third argument without a word
    nulls_spelt: bool = False  # does sqlglot add the IGNORE NULLS that it has anyway?

    # ---- what it does with rows
    takes: Takes = "number"
    starred: bool = False  # may it be taken of whole rows, (*)?
    condition: bool = False  # does it count the rows where its argument holds, as a FILTER of COUNT(*) would?
    distinct_of: str | None = None  # it is this one of DISTINCT values
    zero_where_empty: bool = False  # 0, not NULL, where there are no rows
    skips_zero: bool = False  # is a row whose value is 0 like no row at all?

    # ---- what it does with results, groups that hold about 0 among them
    adds_up: bool = False  # do they change nothing?
    takes_largest: bool = False  # nor here, where no result is negative?
    by_second: bool = False  # is it by the second argument that it looks for the largest?

    # ---- what Google's contribution bounds clip in it
    clips: Clips = "values"
    per_group_instead: str = ""  # a way out where it can't be clipped per group; {bounds}: those that were given

    # ---- what may be asked of private rows
    answered: bool = False  # is there an answer for private rows?
    of_keys: bool = False  # is it answered without noise where its argument depends on the keys alone?
    shows_rows: bool = False  # would it show values of single rows?
    instead: str | None = None  # what to ask of private rows instead


class ByValue(Form):
    """Answered from noisy counts of its argument's values, which are a release of their own (plan/by_value.py)."""

    clips: Clips = "nothing"
    counts: str = "COUNT"  # the recipe of the counts
    public: bool = False  # must all values be public? Else they may be selected privately
    beside_groups: tuple[str, str] | None = None  # why it can't stand beside GROUP BY, and a way out; {x}: its argument

    def shown_as(self, call: exp.Expr) -> exp.Expr:
        """What `explain` calls the counts, given the call."""
        return call

    def over(self, value: exp.Expr, count: exp.Expr) -> exp.Select:
        """The query over the noisy table of one group, which has these two columns; its FROM is added to it."""
        raise NotImplementedError
