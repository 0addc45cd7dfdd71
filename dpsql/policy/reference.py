"""What the keys of a policy make for readers: docs/policy.md, and a JSON Schema for editors."""

from __future__ import annotations

from typing import Any

from dpsql.policy.keys import ANCHOR, PARTS, POLICY, UNIT_COLUMN, UNIT_LINK, Form


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a policy file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "dpsql policy", **POLICY.form}


def reference() -> str:
    """docs/policy.md."""
    lines = [
        "# The policy file, key by key",
        "",
        "Made from the reader's own definitions (`dpsql/policy/keys.py`) by `python -m dpsql.policy.reference > "
        "docs/policy.md`: not to be edited.",
        "`dpsql init DATA…` drafts a policy, `dpsql check` validates it and advises, and `dpsql check --schema` prints "
        "a JSON Schema by which editors complete these keys.",
        "Names are case-insensitive; unknown keys are errors.",
    ]
    for part in PARTS:
        lines += ["", f"## `[{part.path}]`" + (" (a table)" if part in (ANCHOR, UNIT_COLUMN, UNIT_LINK) else ""), ""]
        lines += [part.text, "", "| key | what it says | for instance | if it isn't there |", "|---|---|---|---|"]
        for key in part.keys:
            without = "**it must be there**" if key.needed else key.default or "–"
            lines.append(f"| `{key.name}` | {key.text}{_options(key.kind.form)} | `{key.example}` | {without} |")
    return "\n".join(lines) + "\n"


def _options(form: Form) -> str:
    options = form.get("enum", ())
    return f" One of {', '.join(f'`{option}`' for option in options)}." if len(options) > 1 else ""


if __name__ == "__main__":
    print(reference(), end="")
