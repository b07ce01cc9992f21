"""The pages of the site: their order, their names in the site, and the purpose of each."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docsite.reference import reference_pages

ROOT = Path(__file__).parents[1]
HOME = Path("README.md")
DECISIONS = Path("docs/decisions/README.md")

_FENCE = re.compile(r"^(`{3,})(\w*)[^\n]*\n(.*?)^\1$\n?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of the navigation. pages: paths in the repository."""

    title: str
    pages: Sequence[Path]


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block. line: number of its first line in the page."""

    page: Path
    line: int
    language: str
    text: str


@cache
def sections() -> Sequence[Section]:
    entries = tomllib.loads((Path(__file__).parent / "navigation.toml").read_text("utf-8"))
    return [
        Section(entry["title"], [page for name in entry["pages"] for page in _expand(name)])
        for entry in entries["section"]
    ]


def _expand(name: str) -> Iterator[Path]:
    if name == "docs/reference/*.md":
        yield from reference_pages()
    elif "*" in name:
        yield from (path.relative_to(ROOT) for path in sorted(ROOT.glob(name)))
    else:
        yield Path(name)


@cache
def all_pages() -> Sequence[Path]:
    """Return the path in the repository of every page of the site, home page first."""
    decisions = [path.relative_to(ROOT) for path in sorted((ROOT / DECISIONS).parent.glob("0*.md"))]
    return [HOME, *(page for section in sections() for page in section.pages), *decisions]


def site_name(page: Path) -> Path:
    """Return the path of a page in the site. A README becomes the page of its folder."""
    if page == HOME:
        return Path("index.md")
    parts = list(page.parts[1:] if page.parts[0] == "docs" else page.parts)
    if parts[-1] == "README.md":
        parts[-2:] = [f"{parts[-2]}.md"]
    return Path(*(part.lower() for part in parts))


def title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def purpose(text: str) -> str:
    """Return the first sentence of a page, without its links. It says what the page is for."""
    paragraph = " ".join(text.split("\n\n", 2)[1].split())
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    return re.split(r"(?<=[.!?])\s", plain, maxsplit=1)[0]


def page_text(page: Path) -> str:
    return reference_pages().get(page) or (ROOT / page).read_text("utf-8")


def blocks(page: Path) -> Iterator[Block]:
    text = (ROOT / page).read_text("utf-8")
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page, line, match[2], match[3])


def outside_blocks(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a page in order, each with a flag: whether it is outside fenced code."""
    end = 0
    for match in _FENCE.finditer(text):
        yield True, text[end : match.start()]
        yield False, match[0]
        end = match.end()
    yield True, text[end:]
