"""docs/refusals.md: every code that an error can have, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dpsql.core import errors

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"[a-z]{2}[a-z0-9]*(-[a-z0-9]+)*")


def in_source() -> set[str]:
    """The texts that are given as an error's code: by that name, or in the fourth place of `_error`."""
    return {
        text.value
        for file in (ROOT / "dpsql").rglob("*.py")
        for given in codes(ast.parse(file.read_text(encoding="utf-8")))
        for text in ast.walk(given)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and CODE.fullmatch(text.value)
    }


def codes(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "code")
            if isinstance(node.func, ast.Name) and node.func.id == "_error" and len(node.args) > 3:
                yield node.args[3]
        elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "code" for t in node.targets):
            yield node.value
        elif isinstance(node, ast.arguments):
            named = [*node.posonlyargs, *node.args][-len(node.defaults) :] if node.defaults else []
            yield from (d for a, d in zip(named, node.defaults, strict=True) if a.arg == "code")
            yield from (d for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if a.arg == "code" and d)


def documented() -> list[str]:
    rows = re.findall(
        r"^\| ((?:`[a-z0-9-]+`(?:, )?)+) \|", (ROOT / "docs/refusals.md").read_text("utf-8"), re.MULTILINE
    )
    return [code for row in rows for code in re.findall(r"`([a-z0-9-]+)`", row)]


def test_every_code_is_documented_once_and_none_that_is_gone() -> None:
    found = documented()
    assert sorted(found) == sorted(set(found))
    assert set(found) == in_source()


def test_every_kind_of_error_is_documented_with_its_exit_code() -> None:
    text = (ROOT / "docs/refusals.md").read_text("utf-8")
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.Error)]
    for kind in kinds:
        if kind is not errors.Error:
            assert f"| `{kind.__name__}` | {kind.exit_code} |" in text
