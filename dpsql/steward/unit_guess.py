"""Who is protected, guessed: from names and types, and from which columns are unique where the steward let us look.

Names of people, of things and of ids are in lists: all that a guess from names alone has to go by.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.policy.model import ColumnUnit, LinkedUnit, RowUnit, Unit

ROW = "row"  # the answer that each row is protected for itself


@dataclass(frozen=True, slots=True)
class Subject:
    """A table to guess about.

    unique: the columns without a repetition, in lower case; None where nobody looked. repeating: the columns whose
    values repeat as people's ids do, as they are written; none where nobody looked.
    """

    name: str
    columns: tuple[tuple[str, Type], ...]
    unique: frozenset[str] | None = None
    repeating: frozenset[str] = frozenset()

    @property
    def meanings(self) -> dict[str, Meaning]:
        """What each column's name says, for those whose type could hold an id."""
        prefix = prefix_of([name for name, _ in self.columns])
        return {n: meaning(n, self.name, prefix) for n, type_ in self.columns if _id_type(type_)}

    def type(self, column: str) -> Type:
        return dict(self.columns)[column]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Somebody who could be protected, and the columns, (table, column), that say whom a row belongs to.

    repeats: no name says so, but a column's values repeat as people's ids do.
    """

    entity: str
    score: int
    columns: tuple[tuple[str, str], ...]
    repeats: bool = False

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(table for table, _ in self.columns))

    def within(self, table: str) -> list[str]:
        """Its columns in one table."""
        return [column for there, column in self.columns if there == table]


@dataclass(frozen=True, slots=True)
class Guess:
    """What is proposed for one table, and why."""

    unit: Unit
    why: str
    key: str | None = None  # by which other tables find their owners
    lookup: str | None = None  # why it may be public
    others: tuple[tuple[str, str], ...] = ()  # (column, whom it names) of people who aren't the unit
    by_repetition: bool = False  # no name says that the unit is one: its values repeat as people's ids do
    repeating: tuple[str, ...] = ()  # columns that repeat as people's ids do, and weren't taken for one
    references: Mapping[str, tuple[str, str]] | None = None  # columns with their keys in tables that may be public


def candidates(tables: Sequence[Subject]) -> list[Candidate]:
    """Who could be protected, the likeliest first."""
    found: dict[str, list[tuple[str, str]]] = {}
    scores: dict[str, int] = {}
    nouns = {c.lower() for table in tables for c in table.repeating} & PEOPLE
    for table in tables:
        for column, said in table.meanings.items():
            named = said.entity in NAMED and column.lower() == said.entity and table.type(column).is_integer
            if said.is_id or named or (said.entity in nouns and column.lower() == said.entity):
                found.setdefault(said.entity, []).append((table.name, column))
    for entity, columns in found.items():
        shared = len({table for table, _ in columns}) > 1
        scores[entity] = (
            3 if entity in CONTACTS else 4 if entity in PEOPLE else 2 if entity in SHARED
            else 1 if shared and entity not in THINGS else 0
        )  # fmt: skip
    every = [Candidate(entity, scores[entity], tuple(columns)) for entity, columns in found.items() if scores[entity]]
    every += _by_repetition(tables, {place for one in every for place in one.columns})
    return sorted(every, key=lambda c: (-c.score, -len(c.tables)))


def _by_repetition(tables: Sequence[Subject], known: Collection[tuple[str, str]]) -> Iterator[Candidate]:
    """Owners whom no name tells: columns that repeat as people's ids do, and those of the same name elsewhere."""
    seen: set[str] = set()
    for table in tables:
        repeating = [c for c, _ in table.columns if c in table.repeating]
        for column in repeating if _lookup(table, tables) is None else ():
            if (table.name, column) in known or column.lower() in seen:
                continue
            seen.add(column.lower())
            alike = [(t.name, c) for t in tables for c in t.meanings if c.lower() == column.lower()]
            yield Candidate(column.lower(), 2, tuple(dict.fromkeys([(table.name, column), *alike])), repeats=True)


def named(choice: str, tables: Sequence[Subject]) -> Candidate | None:
    """Whom a steward means by a name: somebody of the candidates, or the owners that columns of this name tell."""
    for one in candidates(tables):
        if one.entity == choice.lower():
            return one
    columns = [(t.name, c) for t in tables for c in t.meanings if c.lower() == choice.lower()]
    if not columns:
        return None
    (table, column), *_ = columns
    entity = next(t.meanings[column].entity for t in tables if t.name == table)
    alike = [(t.name, c) for t in tables for c, said in t.meanings.items() if said.is_id and said.entity == entity]
    return Candidate(entity or column, 1, tuple(dict.fromkeys(columns + alike)))


def guess(
    tables: Sequence[Subject],
    protected: Candidate | None,
    public: Collection[str],
    declined: Collection[str] = (),
) -> dict[str, Guess]:
    """A proposal for each table.

    protected: None where each row is to be protected for itself. declined: the entities of candidates by repetition
    that the steward said are no people.
    """
    private = [table for table in tables if table.name not in public]
    units = {t.name: found for t in private if protected and (found := _own(t, protected))}
    keys: dict[str, str] = {}
    while protected and (step := next(_links(private, units, keys), None)):
        name, (through, key), found = step
        units[name] = found
        keys[through] = key
    people = [one for one in candidates(private) if one.score >= 2 and one.entity not in declined]
    by_repetition = {place for one in people if one.repeats for place in one.columns}
    lists = [t for t in tables if t.name in public or (t.name not in units and _lookup(t, tables) is not None)]
    made: dict[str, Guess] = {}
    for table in private:
        unit, why = (
            units.get(table.name)
            or (_elsewhere(table, people) if protected else None)
            or (RowUnit(), _no_owner(table, people))
        )
        column = unit.column if isinstance(unit, ColumnUnit) else None
        named_people = [one for one in people if not one.repeats and one.entity not in CONTACTS]
        others = [(c, one.entity) for one in named_people for c in one.within(table.name) if c != column]
        linked = [here for here, _ in unit.on] if isinstance(unit, LinkedUnit) else []
        used = {column, *linked, *(c for c, _ in others)}
        lookup = _lookup(table, tables) if table.name not in units and isinstance(unit, RowUnit) else None
        repeating = [c for c, _ in table.columns if lookup is None and c in table.repeating and c not in used]
        references = dict(_references(table, lists, column))
        made[table.name] = Guess(
            unit,
            why,
            keys.get(table.name),
            lookup,
            others=tuple(others),
            by_repetition=(table.name, column) in by_repetition,
            repeating=tuple(repeating),
            references=references,
        )
    return made


def _own(table: Subject, protected: Candidate) -> tuple[Unit, str] | None:
    columns = protected.within(table.name)
    if not columns:
        return None
    elsewhere = [name for name in protected.tables if name != table.name]
    also = f", and {_and(elsewhere)} {'has' if len(elsewhere) == 1 else 'have'} one, too" if elsewhere else ""
    return ColumnUnit(columns[0]), f"{_evidence(columns[0], protected)}{also}"


def _evidence(column: str, one: Candidate) -> str:
    """Why a column may say whom a row belongs to."""
    if one.repeats:
        return f"the values of {column} repeat as people's ids do"
    return f"by its name {column} is an id of one {one.entity}"


def _links(
    tables: Sequence[Subject], units: Mapping[str, tuple[Unit, str]], keys: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str, str], tuple[Unit, str]]]:
    """Tables without a unit that point to one with: (table, (through, its key), (unit, why))."""
    for table in tables:
        if table.name in units:
            continue
        for column, said in table.meanings.items():
            for there in tables:
                if not said.is_id or said.entity in CONTACTS or there.name not in units or there is table:
                    continue
                key = own_key(there, said.entity)
                fits = key is not None and _same(table.type(column), there.type(key))
                if key is not None and fits and keys.get(there.name, key) == key:
                    why = f"{column} has the name of {there.name}'s own id, {key}, and {there.name} knows the owner"
                    yield table.name, (there.name, key), (LinkedUnit(there.name, ((column, key),)), why)


def own_key(table: Subject, entity: str) -> str | None:
    """The column that is a table's own id, as far as names (and a look) say; None where there is none."""
    for column, said in table.meanings.items():
        if said.is_id and said.entity == entity:
            if table.unique is not None and column.lower() in table.unique:
                return column
            if table.unique is None and entity_of(table.name) == entity:
                return column
    return None


def _elsewhere(table: Subject, people: Sequence[Candidate]) -> tuple[Unit, str] | None:
    """Somebody else than the protected owns the rows of this table: a domain of their own."""
    for one in people:
        lists_things = one.entity in CONTACTS and entity_of(table.name) in THINGS
        if (columns := one.within(table.name)) and not lists_things:
            why = f"{_evidence(columns[0], one)}, and no column is an id of those protected in other tables"
            return ColumnUnit(columns[0], one.entity), why
    return None


def _no_owner(table: Subject, people: Sequence[Candidate]) -> str:
    ids = [column for one in people for column in one.within(table.name)]
    return f"was asked for, whatever {_and(ids)} may be" if ids else "no column is an id of somebody by its name"


def _lookup(table: Subject, tables: Sequence[Subject]) -> str | None:
    entity = entity_of(table.name)
    if entity in THINGS:
        return f"by its name it lists {table.name}, not people"
    first = table.columns[0][0] if table.columns else ""
    said = table.meanings.get(first)
    if said is None or said.entity != entity or entity in PEOPLE | SHARED:
        return None
    for there in tables:
        own = entity_of(there.name)  # a column `id` there is the other table's own, and points to nobody
        if there is not table and any(
            (c.lower() == first.lower() and not (m.is_id and m.entity == own)) or (m == said and m.is_id)
            for c, m in there.meanings.items()
        ):
            return f"{there.name} points to it by {first}"
    return None


def _references(table: Subject, lists: Sequence[Subject], unit: str | None) -> Iterator[tuple[str, tuple[str, str]]]:
    """Columns whose keys a lookup table lists: (column, (table, column there))."""
    for column, said in table.meanings.items():
        for there in lists:
            if there is table or column == unit or not there.columns:
                continue
            first = there.columns[0][0]
            far = there.meanings.get(first)
            its_own = said.is_id and said.entity == entity_of(table.name)
            alike = (first.lower() == column.lower() and not its_own) or (
                far is not None and far.is_id and said.is_id and far == said
            )
            one_each = there.unique is None or first.lower() in there.unique
            if alike and one_each and _same(table.type(column), there.type(first)):
                yield column, (there.name, first)
                break


def repeats_like_an_id(table: str, column: str, type_: Type, distinct: int, rows: int) -> bool:
    """Are there many different values, each of them a few times, and by its name no things and no quantities?"""
    plain = (type_.is_integer or type_.is_text) and meaning(column, table).entity not in THINGS
    plain = plain and not is_amount(column) and not is_code(column)
    return plain and distinct > 100 and 3 * distinct < 2 * rows and rows < 100 * distinct


def _id_type(type_: Type) -> bool:
    return type_.is_integer or type_.is_text or type_.name == "UUID"


def _same(a: Type, b: Type) -> bool:
    return (a.is_integer and b.is_integer) or (a.is_text and b.is_text) or a == b


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


PEOPLE = _set(
    "user customer client person people patient member subscriber employee staff student pupil citizen resident voter "
    "respondent participant subject individual passenger driver rider player visitor guest tenant donor applicant "
    "borrower worker teacher doctor physician nurse buyer seller cardholder beneficiary insured policyholder child "
    "contact lead author reviewer sender recipient receiver payer payee owner courier clinician therapist learner "
    "ssn email phone msisdn imsi"
)
SHARED = _set("household family account card device vehicle aircraft subscription cookie imei session")
"""What stands for one person, or for a few."""
THINGS = _set(
    "product item sku part supplier supp partsupp store shop city country county nation region state province "
    "continent category type status airport airline carrier currency language year month day date hour week weekday "
    "time calendar holiday zip postcode area department dept location site warehouse branch station route code codes "
    "lookup unit weather rate exchange tax brand model manufacturer industry sector occupation diagnosis icd drug "
    "course class genre tag kind level color colour size dim dimension"
)
"""What protects nobody: places, goods, codes, times."""
AMOUNTS = _set(
    "price cost fare tip toll fee tax total amount sum charge balance bal income salary wage revenue sale discount "
    "quantity qty count size weight height length width depth volume area distance mile km speed duration elapsed "
    "delay second minute ms cent usd eur point score rating age temperature temp pressure systolic diastolic pulse "
    "level percent pct ratio byte kb mb gb view click step calorie seat page latitude longitude lat lon lng alt "
    "altitude value measurement reading dose grade"
)
"""Words of quantities. A column of many numbers, each there a few times, names nobody where its name is one of them."""
CODES = _set("zip zipcode postcode plz postal code codes sku icd diagnosis route flight")
"""Whole numbers that are codes: nobody adds them up, and most numbers between the least and the greatest are none."""
CONTACTS = _set("email phone msisdn")
"""What one of the people may have several of."""
NAMED = _set("individual subject respondent participant person customer user patient member")
"""Whole names of columns that are ids where they hold whole numbers."""
IDS = _set("ssn email phone msisdn imsi imei vin plate tailnum")
"""Names that are ids by themselves."""
_ALIASES = {
    "cust": "customer", "emp": "employee", "acct": "account", "uid": "user", "usr": "user", "pat": "patient",
    "persons": "person", "people": "person", "staff": "employee", "children": "child", "pers": "person",
    "subscr": "subscriber", "tailnum": "aircraft", "vin": "vehicle", "plate": "vehicle",
    "mail": "email", "e_mail": "email", "telephone": "phone", "tel": "phone",
}  # fmt: skip
_AMOUNT_ENDS = ("price", "cost", "amount", "qty", "count", "time", "size", "distance", "duration", "total")
_SUFFIXES = ("uuid", "guid", "key", "number", "num", "id", "no", "nr", "code", "hash", "sk", "pk")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a column's name says: of what it may be the id, and whether it is one beyond doubt."""

    entity: str
    is_id: bool


def meaning(column: str, table: str, prefix: str = "") -> Meaning:
    """What a column is an id of. `id` is the id of its own table; prefix: what all names of the table begin with."""
    words = _words(column[len(prefix) :])
    if not words:
        return Meaning("", False)
    if words in (["id"], ["key"], ["uuid"], ["guid"], ["pk"]):
        return Meaning(entity_of(table), True)
    *before, last = words
    if last in _SUFFIXES and before:
        return Meaning(entity_of(before[-1]), True)
    if last in IDS:
        return Meaning(entity_of(last), True)
    for suffix in ("uuid", "guid", "key", "num", "id", "no"):
        whole = entity_of(last.removesuffix(suffix))
        if last.endswith(suffix) and (whole in PEOPLE | SHARED | THINGS or suffix in ("key", "uuid", "guid")):
            return Meaning(whole, len(last) > len(suffix))
    whole = entity_of(last)
    return Meaning(whole, whole in IDS or last == "uid")


def is_amount(column: str) -> bool:
    """Does a column's name say that it holds a quantity?"""
    ends = [entity_of(word) for word in _words(column)]
    return any(word in AMOUNTS for word in ends) or bool(ends and ends[-1].endswith(_AMOUNT_ENDS))


def is_code(column: str) -> bool:
    """Does a column's name say that its whole numbers are codes?"""
    words = _words(column)
    return bool(words) and words[-1] in CODES


def entity_of(name: str) -> str:
    """The one thing that a table or a word is about: orders -> order, cust -> customer."""
    words = _words(name)
    last = words[-1] if words else ""
    if last in _ALIASES:
        return _ALIASES[last]
    if last.endswith("ies") and len(last) > 4:
        one = last[:-3] + "y"
    elif last.endswith(("ches", "shes", "sses", "xes")):
        one = last[:-2]
    elif last.endswith("s") and not last.endswith(("ss", "us", "is")) and len(last) > 3:
        one = last[:-1]
    else:
        one = last
    return _ALIASES.get(one, one)


def prefix_of(columns: list[str]) -> str:
    """What all names begin with (c_ in c_custkey, c_name), up to three letters; else nothing."""
    starts = {match[0] if (match := re.match(r"[A-Za-z]{1,3}_", name)) else "" for name in columns}
    return starts.pop() if len(starts) == 1 and len(columns) > 1 else ""


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [word.lower() for word in re.findall(r"[^\W_]+", spaced)]
