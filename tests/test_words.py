"""Docstrings and comments are sentences that people would say, or noun phrases that stand alone.

Each pattern is a habit that makes readers guess, with advice on what to write instead.
"""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.source_tree import SOURCE, nodes_of

ROOT = SOURCE.parents[1]

ADVICE = {
    r"\b[a-z_]+: of (?:the|an?|all|one|each|every|its|their|this|that|those|whom)\b": (
        "describe a parameter as `name: its meaning`, with its unit"
    ),
    r"(?:^|[.;] )As `|\bas of `|(?:^|[.;] )Errors as `": "write: Like `f`",
    r"(?:^|[.;:] )What (?![^.]*\?)": "name the thing: a noun and what it does",
    r"^Who(?:m|se)? (?![^.]*\?)": "start with the noun",
    r"(?:^|[.:;] |, and )[Tt]o [a-z]+ [^.:;,]*\b(?:takes|costs|would take)\b": (
        "write: loading it takes, not: to load it"
    ),
    r"\bof (?:its|their|his|her|our|my) own\b": "write: a separate one, or its own",
    r"\b(?:None|False|True|Empty): (?:an?|any|it|no|none|nothing|the|they|there)\b": (
        "write: None if"
    ),
    r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b|such\b)": "write: is not a",
    r"(?<!not )\bso (?:many|much|few)\b(?! that\b| as\b)": "write: this many, or the number's name",
    r"\bthe ones? (?:that|whose|which|who|whom)\b": "repeat the noun",
    r"\b(?:its|the) begin\b": "write: start",
    r"\bnevertheless\b[.)]?$": "write: still, in front of the verb",
    r"\b(?:is|are|was|were) (?:there|gone|over)(?:[.,;:]|$)": (
        "write: exists, has arrived, was deleted, has ended"
    ),
    r"^(?:of|or|and|but|nor|whose|whom) ": "start with a whole thought",
    r"^Of (?:the|an?|all|each|every|one) ": "start with the noun",
    r"\b(?:is|are) no coroutines?\b": "write: synchronous",
    r"\b(?:by|each|wrong) place\b|(?<!in )\bplaces? (?:of|among) ": (
        "write: index, position, path or spot, whichever it is"
    ),
    r"(?:^|[.;] )Numbers of ": "write: Counts of, or the thing and `counts`",
    r"(?:^|[.;:] )How (?:often|many|long) (?![^.]*\?)": (
        "write: Number of, Maximum number of, Time for which"
    ),
    r"\bgo(?:es)? on\b(?! to\b)": "write: continues, or resumes after a kill",
    r"\b(?:any|some)thing else than\b|\banother \w+ than\b": "write: other than, or the difference",
    r"\bdie[ds]? of\b|\blately\b": "write: recently died while",
    r"\bcounts? (?:an?|the|this) \w+ further\b": "write: shows that the unit got further",
    r"\bends? with (?:it|that|this)\b": "write: reports this and ends",
    r"\b(?:not|nothing) (?:\w+ )?tells? [^.;]* from\b": "write: distinguish",
}
"""Pattern -> what to write instead."""

EXAMPLES = {
    "query: of the warehouse.": "query: runs SQL in the warehouse.",
    "As `find`, without waiting.": "Like `find`, without waiting.",
    "What waits for the store.": "Rows that wait for the store.",
    "Who sends a request: a key or a user.": "The sender of a request: a key or a user.",
    "To load the certificates takes 20 ms.": "Loading the certificates takes 20 ms.",
    "Runs in a thread of its own.": "Runs in a separate thread.",
    "The reason; None: it is healthy.": "The reason; None if it is healthy.",
    "A member who is no owner.": "A member who is not an owner.",
    "It ends with so many wrong codes.": "It ends after this many wrong codes.",
    "The event is the one whose ID it is.": "The event with that ID.",
    "Reads from its begin on.": "Reads from the start.",
    "It may be missing nevertheless.": "It may still be missing.",
    "Once the body is there.": "Once the body has arrived.",
    "of each that was merged": "for each merge",
    "Of all workspaces.": "Number of jobs in all workspaces.",
    "To compute a hash for each of them would take longer.": "Computing hashes would take longer.",
    "Return the sizes; None: no file is stored.": "Return the sizes; None if no file is stored.",
    "Return the places of new events.": "Return the indexes of new events.",
    "Return the new events, by place.": "Return the new events, by index.",
    "Numbers of events since counting began.": "Event counts since counting began.",
    "How often an event is read at most.": "Maximum number of readings of an event.",
    "It goes on after a kill.": "It resumes after a kill.",
    "It asks for something else than what was saved.": "It changes what was saved.",
    "It may read another file than before.": "It may read a file other than before.",
    "Skip the work if the process died of it lately.": "Skip work that recently ended the process.",
    "The report may count the unit further.": "The report may show that the unit got further.",
    "If a column is missing, the dry run ends with this.": "The dry run reports this and ends.",
    "The struct does not tell null from a missing field.": "It does not distinguish the two.",
}
"""A text that the patterns find -> the same in plain English."""


class Piece(NamedTuple):
    """A docstring or a comment as one line."""

    location: str
    text: str


def _folders() -> list[str]:
    rooms = {path.parent for path in SOURCE.rglob("*.py")}
    sdk = {path.parent for path in (ROOT / "sdk" / "python" / "src").rglob("*.py")}
    beside = {ROOT / "bench", ROOT / "docsite", ROOT / "examples"}
    folders = sorted(folder.relative_to(ROOT).as_posix() for folder in rooms | sdk | beside)
    return [*folders, "tests"]


def _files(folder: str) -> Iterator[Path]:
    """The sources of a folder, and the helpers below `tests`. Released migrations never change."""
    if folder == "tests":
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.name.startswith("test_"):
                yield path
    elif "migrations/versions" not in folder:
        yield from sorted((ROOT / folder).glob("[!0-9]*.py"))


@cache
def _pieces(path: Path) -> list[Piece]:
    name = path.relative_to(ROOT).as_posix()
    return [
        Piece(f"{name}:{line}", " ".join(text.split()))
        for line, text in (*_docstrings(path), *_comments(path))
    ]


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes_of(path):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    """Comments; lines of the same comment are joined."""
    first, last, column, text = 0, 0, 0, ""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type != tokenize.COMMENT:
                continue
            line, words = token.start[0], token.string.lstrip("# ")
            is_alone = token.line.lstrip().startswith("#")
            if is_alone and (line, token.start[1]) == (last + 1, column):
                text, last = f"{text} {words}", line
                continue
            if text:
                yield first, text
            first, last, text = line, line if is_alone else 0, words
            column = token.start[1]
    if text:
        yield first, text


def _offences(text: str) -> list[str]:
    return [advice for pattern, advice in ADVICE.items() if re.search(pattern, text)]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("folder", _folders())
def test_texts_in_code_are_plain_english(folder: str) -> None:
    offenders = [
        f"{piece.location}: {advice}: {piece.text[:90]}"
        for path in _files(folder)
        for piece in _pieces(path)
        for advice in _offences(piece.text)
    ]
    assert offenders == []


@pytest.mark.parametrize(("riddle", "plain"), EXAMPLES.items())
def test_patterns_find_riddles_and_no_plain_english(riddle: str, plain: str) -> None:
    assert _offences(riddle)
    assert not _offences(plain)
