"""docs/trusted.md: every module is in one layer of the trusted base or outside of it, and what is outside has no hands.

What is outside can neither open the private engine, nor draw noise that protects, nor write a spend: it doesn't import
the modules that do, and doesn't call their methods by name. `--update-golden` rewrites the tables of the page.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from test_citations import NAME, theorems
from test_layers import imports, modules

PAGE = Path(__file__).parents[1] / "docs" / "trusted.md"
MARKED = re.compile(r"(<!-- modules: ([\w ]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
SIZES = "sizes"


@dataclass(frozen=True)
class Layer:
    """Modules that are trusted with the same thing: names, of packages for all that is in them."""

    modules: tuple[str, ...]
    apart: tuple[str, ...] = ()  # in these packages, and in another layer


OUTSIDE_ALL = "outside"
LAYERS = {
    "core": Layer(
        (
            "release", "run", "mechanisms", "statistics", "accounting", "analyze.bounding", "core.cost",
            "core.sensitivity", "core.grid", "core.arrays",
        ),
        (
            "mechanisms.toolbox", "mechanisms.toolbox_noises", "mechanisms.toolbox_noises",
            "accounting.account_statement", "accounting.backup", "accounting.backup",
        ),
    ),
    "stages": Layer(
        ("quote", "bounds", "store", "engine", "quoting", "session", "options", "learn", "refresh", "aggregates"),
    ),
    "ownership and ranges": Layer(("analyze", "plan", "policy", "core"), ()),
    "statements and scans": Layer(("backends",)),
    "totality": Layer(("sql",)),
    OUTSIDE_ALL: Layer(
        (
            "", "__main__", "answer", "explain", "remote", "dbapi", "jobs", "steward", "server", "cli",
            "mechanisms.toolbox", "mechanisms.toolbox_noises", "mechanisms.toolbox_noises",
            "accounting.account_statement", "accounting.backup", "accounting.backup",
        ),
    ),
}  # fmt: skip
"""A module belongs to the layer that names it, or else the longest package around it."""

GUARDED = (
    "dpsql.backends.duckdb", "dpsql.backends.spark",  # open the private engine
    "dpsql.mechanisms.sampler", "dpsql.mechanisms.sampler", "dpsql.release",  # draw noise
    "dpsql.accounting.journal", "dpsql.accounting.claims", "dpsql.run",  # write spends
)  # fmt: skip
HANDS = {
    "opens or reads the private engine": frozenset(
        ("open_backend", "examine", "measuring", "all_units", "heavy_units", "misread")
    ),
    "draws noise": frozenset(("draw", "pick", "picks", "shuffled")),
    "writes to the account": frozenset(("reserve", "give_back", "answered", "writing", "record_promise", "_store")),
}
ALLOWED = {
    ("dpsql.accounting.backup", "dpsql.accounting.journal"): "restores a copy whole, under the lock; adds no spend",
    ("dpsql.accounting.backup", "writing"): "notes that a copy was made",
    ("dpsql.mechanisms.toolbox_noises", "dpsql.mechanisms.sampler"): "of the toolbox: no query uses it",
    ("dpsql.mechanisms.toolbox_noises", "draw"): "of the toolbox: no query uses it",
    (
        "dpsql.mechanisms.toolbox",
        "dpsql.mechanisms.sampler",
    ): "noise for the caller's own numbers: no data of a policy",
    ("dpsql.mechanisms.toolbox", "draw"): "noise for the caller's own numbers: no data of a policy",
    ("dpsql.mechanisms.toolbox", "pick"): "noise for the caller's own numbers: no data of a policy",
    ("dpsql.answer.imitate", "draw"): "noise of simulations, from a seed: it is added to noisy values alone",
    ("dpsql.steward.init", "open_backend"): "`init --steward` reads the data in clear, for the person who holds it",
    ("dpsql.steward.check", "misread"): "`check --steward` counts values in clear, for the person who holds the data",
    ("dpsql.steward.init", "examine"): "`init --steward` reads the data in clear, for the person who holds it",
}
"""What is outside and has a hand all the same, with the reason. A line that nothing needs any more fails."""


def layer_of(module: str) -> str:
    """The layer of a module; fails where none or two name it."""
    short = module.removeprefix("dpsql").removeprefix(".")
    best: list[tuple[int, str]] = []
    for name, layer in LAYERS.items():
        if any(short == apart or short.startswith(f"{apart}.") for apart in layer.apart):
            continue
        for pattern in layer.modules:
            if short == pattern or (pattern and short.startswith(f"{pattern}.")):
                best.append((len(pattern), name))
    assert best, f"{module} is in no layer of the trusted base, and not outside: name it in LAYERS"
    longest = max(length for length, _ in best)
    found = {name for length, name in best if length == longest}
    assert len(found) == 1, f"{module} is in two layers: {sorted(found)}"
    return found.pop()


@cache
def outside() -> tuple[str, ...]:
    return tuple(name for name in modules() if layer_of(name) == OUTSIDE_ALL)


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def table(layer: str) -> str:
    """The modules of one layer: size, the first sentence about each, the theorems that it cites."""
    rows = ["", "| module | lines | trusted with | theorems |", "|---|---|---|---|"]
    for name, path in sorted(modules().items()):
        if layer_of(name) != layer:
            continue
        text = path.read_text(encoding="utf-8")
        about = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
        first = re.split(r"(?<=[a-z`)])[.:;] ", " ".join(about.split()))[0].rstrip(".").replace("|", "\\|")
        cited = sorted({found for found in re.findall(rf"(?<![\w-]){NAME}(?![\w-])", text) if found in theorems()})
        if first or lines(path) > 10:
            rows.append(f"| `{path.relative_to(PAGE.parents[1])}` | {lines(path)} | {first} | {', '.join(cited)} |")
    return "\n".join([*rows, "", ""])


def sizes() -> str:
    """Modules and lines of each layer."""
    rows = ["", "| layer | modules | lines |", "|---|---|---|"]
    for layer in LAYERS:
        paths = [path for name, path in modules().items() if layer_of(name) == layer]
        rows.append(f"| {layer} | {len(paths)} | {sum(map(lines, paths)):,} |")
    return "\n".join([*rows, "", ""])


def computed(page: str) -> str:
    """The page with tables as they follow from the code."""

    def filled(found: re.Match[str]) -> str:
        return found[1] + (sizes() if found[2] == SIZES else table(found[2])) + found[4]

    return MARKED.sub(filled, page)


def hands(source: str) -> set[str]:
    """The guarded methods that a module names."""
    every = frozenset().union(*HANDS.values())
    return {n.attr for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Attribute) and n.attr in every}


def guarded(module: str) -> set[str]:
    """The guarded modules that a module imports, anywhere in its text."""
    known = modules()
    named = set(imports(module, known[module], known))
    return {guard for guard in GUARDED for name in named if name == guard or name.startswith(f"{guard}.")}


def test_every_module_is_in_one_layer() -> None:
    for name in modules():
        layer_of(name)


def test_the_page_lists_what_is_there(request: pytest.FixtureRequest) -> None:
    shown = PAGE.read_text(encoding="utf-8")
    assert {found[2] for found in MARKED.finditer(shown)} == {SIZES, *LAYERS} - {OUTSIDE_ALL}
    wanted = computed(shown)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(wanted, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == wanted, "run pytest tests/test_trusted.py --update-golden"


def test_what_is_outside_has_no_hand_on_data_noise_or_account() -> None:
    found = {(name, hand) for name in outside() for hand in hands(modules()[name].read_text(encoding="utf-8"))}
    found |= {(name, guard) for name in outside() for guard in guarded(name)}
    assert found == set(ALLOWED), "outside of the trusted base: go through dpsql.session, or give the reason here"


def test_a_hand_is_seen_where_there_is_one() -> None:
    assert hands("def f(engine):\n    return engine.ledger.reserve([], None)\n") == {"reserve"}
    assert hands("x = 'reserve'\n") == set()
    assert guarded("dpsql.run") >= {"dpsql.release"}


def test_the_guarded_names_are_there() -> None:
    """A guarded module or method that is renamed would be guarded no more."""
    known = modules()
    assert set(GUARDED) <= set(known)
    trusted = "\n".join(known[name].read_text(encoding="utf-8") for name in known if layer_of(name) != OUTSIDE_ALL)
    for hand in frozenset().union(*HANDS.values()):
        assert re.search(rf"def {hand}\(", trusted), hand
