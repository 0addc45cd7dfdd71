"""What the site needs besides the Markdown of this folder: pages that lie elsewhere, and links to what isn't a page."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "dpsql/THEORY.md": "theory.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Pages of the site that are documents of the repository, by their places there."""

_LINK = re.compile(r"(!?)\[([^\]]+)\]\((?![a-z]+:|#)([^)#\s]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie elsewhere."""
    for place, page in ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / place)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links that hold in the repository into links of the site; what isn't on it is named instead."""
    sources = {page: place for place, page in ELSEWHERE.items()}
    source = PurePosixPath(sources.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def linked(found: re.Match[str]) -> str:
        picture, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        place = normpath(str(source.parent / target))
        if place in ELSEWHERE or place.startswith("docs/"):
            return f"{picture}[{text}]({ELSEWHERE.get(place, place.removeprefix('docs/'))}{anchor})"
        return text if place in text else f"{text} (`{place}`)"

    pieces = _CODE.split(markdown)
    return "".join(piece if i % 2 else _LINK.sub(linked, piece) for i, piece in enumerate(pieces))
