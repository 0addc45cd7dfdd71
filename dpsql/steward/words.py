"""Which names are names of people, of things, and of ids: all that a guess from names alone has to go by."""

from __future__ import annotations

import re

from dpsql.core.frozen import dataclass


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
