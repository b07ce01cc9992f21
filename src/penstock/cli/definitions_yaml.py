"""Reads a YAML file of definitions and finds the line of each field."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn

import yaml
from yaml.composer import ComposerError

from penstock.base.value_budget import DEFINITION
from penstock.base.wording import listed
from penstock.cli.client import Record
from penstock.cli.options import WRONG_USE, fail

_MAX_BYTES = 1_000_000
_MAX_DEPTH = 50
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")
"""Tags of texts, and of the sign that inserts another mapping."""

KEYS = {"segments": "name", "goals": "name", "funnels": "name", "links": "slug"}
"""Lists in the file, in the order in which they are applied (funnels use goals), and the field that
identifies an entry.
"""
INTERNAL_TRAFFIC = "internalTraffic"
"""The list of filters of internal traffic. All of them are one definition."""
KINDS = (*KEYS, INTERNAL_TRAFFIC)


class _Size(NamedTuple):
    """Size of a part of the file, including what its aliases expand to."""

    values: int
    depth: int


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Loads times as texts, as the API expects them.

    Rejects a file whose aliases expand to too much, before building any value.
    """

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._sizes: dict[yaml.Node, _Size] = {}
        self._open = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        mark, is_alias = event.start_mark, isinstance(event, yaml.AliasEvent)
        if self._open == _MAX_DEPTH:
            raise _too_deep(mark)
        self._open += 1
        node = super().compose_node(parent, index)
        self._open -= 1
        if node is not None and node not in self._sizes:
            if isinstance(node, yaml.MappingNode):
                _check_keys(node)
            if is_alias:
                raise ComposerError(None, None, "an alias repeats what it is part of", mark)
            self._sizes[node] = self._size(node, mark)
        return node

    def _size(self, node: yaml.Node, mark: yaml.Mark) -> _Size:
        sizes = [self._sizes[part] for part in _parts_of(node)]
        depth = 1 + max((size.depth for size in sizes), default=0)
        values = 1 + sum(size.values for size in sizes)
        if depth > _MAX_DEPTH:
            raise _too_deep(mark)
        if values > DEFINITION.max_values:
            problem = f"with its aliases, it has more than {DEFINITION.max_values:,} values"
            raise ComposerError(None, None, problem, mark)
        return _Size(values, depth)


def _check_keys(node: yaml.MappingNode) -> None:
    """Reject a key that is not text, and one that repeats: PyYAML would keep only the last."""
    first_lines: dict[str, int] = {}
    for key, _ in node.value:
        mark = key.start_mark
        if key.tag not in _KEY_TAGS:
            problem = "a key must be text; write it in quotes"
            raise ComposerError(None, None, problem, mark)
        if key.value in first_lines:
            problem = f"{key.value} is already on line {first_lines[key.value]}; keep one of them"
            raise ComposerError(None, None, problem, mark)
        first_lines[key.value] = mark.line + 1


def _too_deep(mark: yaml.Mark) -> ComposerError:
    return ComposerError(None, None, f"it is nested more than {_MAX_DEPTH} levels deep", mark)


def _parts_of(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


@dataclass(frozen=True)
class Entry:
    """A definition in the file.

    key: its name, or the slug of a link. lines: the file and its syntax tree. at: its path there.
    """

    kind: str
    key: str
    body: Record
    lines: "Lines"
    at: tuple[str | int, ...]

    @property
    def label(self) -> str:
        return label_of(self.kind, self.key)

    def fault(self, field: str, message: str) -> str:
        """Return a message with the file, the line, the definition and the field, if any."""
        parts = (*self.at, *_parts(field)) if field else self.at or (self.kind,)
        location = self.lines.location(parts)
        return f"{location}: {self.label}: {field + ': ' if field else ''}{message}"


@dataclass(frozen=True)
class Lines:
    """Lines of a file. root: its syntax tree."""

    file: Path
    root: yaml.Node

    def location(self, path: tuple[str | int, ...]) -> str:
        """Return the file and the line of a field, or of the part of its path that exists."""
        node, line = self.root, self.root.start_mark.line
        for part in path:
            child = _child(node, part)
            if child is None:
                break
            node, line = child
        return f"{self.file}:{line + 1}"


@dataclass(frozen=True)
class Definitions:
    """The entries of a file, by kind. lines: its lines."""

    entries: Mapping[str, Sequence[Entry]]
    lines: Lines

    def gone(self, kind: str, key: str) -> Entry:
        """Return the entry of a definition that the file no longer has."""
        return Entry(kind, key, {}, self.lines, (kind,))


def label_of(kind: str, key: str) -> str:
    return "internal traffic" if kind == INTERNAL_TRAFFIC else f"{kind.removesuffix('s')} {key}"


def read_definitions(file: Path) -> Definitions:
    """Read the entries of each kind. Ends the command if the file is not valid."""
    if file.stat().st_size > _MAX_BYTES:
        fail(f"{file} has more than {_MAX_BYTES:,} bytes", WRONG_USE)
    try:
        loader = _Loader(file.read_text("utf-8"))
        root = loader.get_single_node()
        content = {} if root is None else loader.construct_document(root)
        json.dumps(content, allow_nan=False)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        fail(f"{file}{line}: this is not valid YAML: {error.problem or error.context}", WRONG_USE)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        fail(f"{file} is not valid YAML with values of JSON: {reason}", WRONG_USE)
    lists = f"the lists {listed(KINDS)}"
    if root is None or not isinstance(content, dict):
        fail(f"{file}:1: the file must have one or more of {lists}", WRONG_USE)
    lines = Lines(file, root)
    for kind in content:
        if kind not in KINDS:
            _refuse(lines, (kind,), f"{kind} is not one of {lists}")
    entries = {kind: list(_entries(lines, kind, content.get(kind) or [])) for kind in KINDS}
    return Definitions(entries, lines)


def _entries(lines: Lines, kind: str, content: Any) -> Iterator[Entry]:
    if not isinstance(content, list):
        _refuse(lines, (kind,), f"{kind} must be a list")
    if kind == INTERNAL_TRAFFIC:
        if content:
            yield Entry(kind, "", {"filters": content}, lines, ())
        return
    name, seen = KEYS[kind], set[str]()
    for index, body in enumerate(content):
        key = body.get(name) if isinstance(body, dict) else None
        if not isinstance(key, str) or not key:
            _refuse(lines, (kind, index), f"each entry of {kind} needs a {name}, which is a text")
        if key in seen:
            _refuse(lines, (kind, index, name), f"{kind} has the {name} {key} twice")
        seen.add(key)
        yield Entry(kind, key, body, lines, (kind, index))


def _refuse(lines: Lines, path: tuple[str | int, ...], message: str) -> NoReturn:
    fail(f"{lines.location(path)}: {message}", WRONG_USE)


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, int] | None:
    """Return a part of a node, and its line, counted from 0."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        value = node.value[part]
        return value, value.start_mark.line
    return None


def _parts(field: str) -> Iterator[str | int]:
    """Split a path of the API: `steps`, 2 and `value` for `steps[2].value`."""
    for part in field.replace("[", ".[").split("."):
        number = part.removeprefix("[").removesuffix("]")
        yield int(number) if part != number and number.isdecimal() else part
