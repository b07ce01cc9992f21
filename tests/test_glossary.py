"""The glossary: its code names exist, no term has two lines, and no old name comes back."""

import ast
import re
from collections import Counter
from functools import cache

from tests.source_tree import SOURCE, nodes_of, tree_of

ROOT = SOURCE.parents[1]
PAGE = ROOT / "docs" / "development" / "glossary.md"
FOLDERS = (SOURCE, *(ROOT / name for name in ("tests", "bench", "docsite", "scripts", "examples")))
NOT_NOUNS = {
    "told", "found", "some", "one", "made", "begun", "asked", "kept", "happening", "whose", "place",
    "places",
}  # fmt: skip
"""Words that say nothing about the thing that they name."""
NOT_IN_NAMES = NOT_NOUNS - {"found", "some", "one"}
"""Those that are no part of a longer name either. The others can be: `not_found`, `one_line`."""
NAMES_OF_OTHERS = {"connection_made"}
"""Names that a library prescribes: asyncio."""

OLD_NAMES = {
    "Answer", "Answered", "Archive", "AskedFunnel", "Asker", "Bounds", "ClickKeeper", "Contended",
    "Facts", "Flight", "Had", "Happening", "Inquiry", "Journey", "Kept", "Moment", "Place",
    "Question", "Reading", "Recent", "Shared", "Sorted", "Spool", "Surroundings", "Whom", "Whose",
    "choose_answer", "hide", "keeps_more", "many_wait", "most", "time_decides",
}  # fmt: skip
"""Earlier names of terms that the glossary names differently."""
OLD_FORMS = re.compile("of_(?:destination|import|question|request)$|.*_of_(?:its|their)_own$|MOST_")
"""Forms of earlier names: a function named after the question that it answers, or a riddle."""


def first_column(text):
    """First cells of all table rows, without headers."""
    cells = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    return [cell for cell in cells if cell not in ("term", "name")]


def public_names():
    """Modules, and classes, functions and constants that modules define at their top level."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        names |= {path.stem, path.parent.name}
        for node in tree_of(path).body:
            match node:
                case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                    names.add(node.name)
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ):
                    names.add(name)
    return {name for name in names if not name.startswith("_")}


def names_in(path):
    """Names that a module gives to classes, functions, arguments, variables and attributes."""
    for node in nodes_of(path):
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.arg(arg=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
            ):
                yield name.lstrip("_")


def parts_of(name):
    """`{"kept", "id"}` for `kept_id` and `KeptId`; none for a test: its name is a sentence."""
    if re.match("test_|Test", name):
        return set()
    return {part.lower() for part in re.findall("[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def parameters_in(path):
    """The parameters of a statement for the warehouse, such as `{requested_at:Int64}`."""
    return re.findall(r"\{(\w+):", path.read_text("utf-8"))


@cache
def is_forbidden(name):
    if name in NAMES_OF_OTHERS:
        return False
    if name in NOT_NOUNS | OLD_NAMES or parts_of(name) & NOT_IN_NAMES:
        return True
    return not name.startswith("test_") and bool(OLD_FORMS.match(name))


def test_every_code_name_of_the_glossary_exists():
    _, code = PAGE.read_text("utf-8").split("\n## Code\n")
    names = {name for cell in first_column(code) for name in re.findall(r"`(\w+)`", cell)}
    assert len(names) > 80
    assert sorted(names - public_names()) == []


def test_every_term_has_one_line():
    cells = first_column(PAGE.read_text("utf-8"))
    assert [cell for cell, count in Counter(cells).items() if count > 1] == []


def test_no_name_is_or_has_one_of_the_old_words():
    offenders = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in FOLDERS
        for path in sorted(folder.rglob("*.py"))
        if path.name != "schema.py"  # names of the API stay
        for name in names_in(path)
        if is_forbidden(name)
    ]
    offenders += [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(SOURCE.rglob("*.sql"))
        for name in parameters_in(path)
        if is_forbidden(name)
    ]
    assert offenders == []


def test_texts_have_one_spelling():
    """British, and `email`. Migrations are fixed, with the comments of columns that they create.
    Error codes of other services, in capitals, have their own spelling.
    """
    paths = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"]
    paths += (ROOT / "docs").rglob("*.md")
    paths += (path for kind in ("py", "html", "js", "md") for path in SOURCE.rglob(f"*.{kind}"))
    fixed = {
        ROOT / "docs" / "examples.md",  # data
        *(SOURCE / "metadb" / "tables").glob("*.py"),
    }
    offenders = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in paths
        if path not in fixed and not {"versions", "vendor"} & set(path.parts)
        for word in re.findall(
            r"(?i)\be-mail|\w*recogniz\w*|\bbehaviors?\b", path.read_text("utf-8")
        )
        if not word.isupper()
    ]
    assert offenders == []
