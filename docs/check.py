"""Checks the documentation: links and citations resolve, and every Python block runs."""

from __future__ import annotations

import os
import re
import runpy
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^\s*(```|~~~)\s*(\w*)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CITATION = re.compile(r"\b(MATH|PROOF)\s+(\d+(?:\.\d+)?)")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")


def pages() -> list[Path]:
    """The Markdown files at the top and in ``docs``."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def lines(page: Path) -> Iterator[tuple[str | None, str]]:
    """Every line with the language of its code block, None outside of blocks and on fences."""
    language: str | None = None
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = FENCE.match(line)
        if fence:
            language = fence[2] if language is None else None
        yield (None, "") if fence else (language, line)


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings can be reached by."""
    headings = (line.lstrip("#") for kind, line in lines(page) if kind is None and line[:1] == "#")
    words = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return {word.replace(" ", "-") for word in words}


def broken_links(page: Path) -> Iterator[str]:
    """Relative links of a page whose file or heading is missing."""
    text = "\n".join(line for kind, line in lines(page) if kind is None)
    for link in LINK.findall(text):
        name, _, fragment = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if ELSEWHERE.match(link):
            continue
        if not target.exists() or (fragment and fragment not in anchors(target)):
            yield link


def sections() -> set[tuple[str, str]]:
    """What citations may point to: sections of ``math.md``, steps of the proof."""
    math, proof = (
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("math.md", "guarantees.md")
    )
    found = {("MATH", one) for one in re.findall(r"(?m)^#+ (\d+(?:\.\d+)?)[. ]", math)}
    return found | {("PROOF", one) for one in re.findall(r"(?m)^\*\*(\d+)\. ", proof)}


def broken_citations() -> Iterator[tuple[Path, str]]:
    """Citations in code and pages that no section or step answers."""
    known = sections()
    code = (path for room in ("src", "tests", "benchmarks", "examples") for path in sources(room))
    for path in [*code, *pages()]:
        cited = set(CITATION.findall(path.read_text(encoding="utf-8")))
        for name, number in sorted(cited - known):
            yield path.relative_to(ROOT), f"{name} {number}"


def sources(room: str) -> list[Path]:
    """The Python files of a room."""
    return sorted((ROOT / room).rglob("*.py"))


def python(page: Path) -> str:
    """The page's Python blocks as one script, every line at its own number."""
    return "\n".join(line if kind == "python" else "" for kind, line in lines(page))


def run(script: str, name: str) -> None:
    """Run a page's script in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / name
        path.write_text(script, encoding="utf-8")
        before = Path.cwd()
        os.chdir(directory)
        try:
            runpy.run_path(str(path), run_name="__main__")
        finally:
            os.chdir(before)


def main() -> int:
    """Report broken links and stop at the first Python block that fails."""
    broken = [(page.relative_to(ROOT), link) for page in pages() for link in broken_links(page)]
    broken += broken_citations()
    for page, link in broken:
        print(f"broken link or citation in {page}: {link}", file=sys.stderr)
    for page in pages():
        script = python(page)
        if script.strip():
            run(script, page.name)
            print(f"{page.relative_to(ROOT)}: its Python runs")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
