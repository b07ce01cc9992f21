"""Reads JSON objects of any shape by a mapping whose columns are paths."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from penstock.base.errors import Fault, Malformed
from penstock.events.imports.formats.json_paths import (
    Finder,
    NotAPath,
    Step,
    is_part_of,
    leaves,
    parsed_path,
    short_name,
)
from penstock.events.imports.formats.mapping import Events, ReadCells, read_cells_by
from penstock.events.imports.formats.reader import (
    SAMPLE_ROWS,
    Row,
    Sample,
    UnreadableFile,
    row_of_events,
    within_values,
)
from penstock.events.imports.formats.schema import (
    MAX_COLUMN_CHARS,
    MAX_COLUMNS,
    ImportMapping,
    OtherColumns,
)
from penstock.events.imports.formats.times import FileTimes
from penstock.events.properties import RESERVED_PREFIX
from penstock.http.bodies import parse_json
from penstock.http.schema import has_controls

ReadObject = Callable[[Mapping[str, Any]], tuple[Events, list[Fault]]]
"""Returns the event in an object, or its events, and the faults of the object."""


def path_problem(mapping: ImportMapping) -> str | None:
    """Return what is wrong with a path of the mapping; None if all are right."""
    for each in mapping.columns:
        try:
            parsed_path(each.column)
        except NotAPath as error:
            return f"The path {each.column[:100]!r} of the mapping {error}"
    return None


def read_object_by(mapping: ImportMapping, times: FileTimes) -> ReadObject:
    """Return the function that reads an object. times: reads the times of the file.

    Raises `UnreadableFile` if a path of the mapping is wrong.
    """
    if problem := path_problem(mapping):
        raise UnreadableFile(problem)
    paths = {each.column: parsed_path(each.column) for each in mapping.columns}
    return partial(_read_object, paths, read_cells_by(mapping, times, list(paths)), mapping)


def read_parts_by(mapping: ImportMapping, times: FileTimes, names: Sequence[str]) -> ReadCells:
    """Return the function that reads a row of a table whose cells may contain objects and lists.

    The columns of the mapping may be paths into them. Otherwise like `read_cells_by`.
    """
    paths = [each.column for each in mapping.columns if each.column not in names]
    if not paths or not all(_column_of(path) in names for path in paths):
        return read_cells_by(mapping, times, names)
    read_object = read_object_by(mapping, times)
    return lambda cells: read_object(dict(zip(names, cells, strict=True)))


def _column_of(path: str) -> str:
    return path.partition("[")[0].partition(".")[0]


def _read_object(
    paths: Mapping[str, tuple[Step, ...]],
    read_cells: ReadCells,
    mapping: ImportMapping,
    content: Mapping[str, Any],
) -> tuple[Events, list[Fault]]:
    finder = Finder(content)
    event, faults = read_cells([finder.find(column, path) for column, path in paths.items()])
    if mapping.other_columns is OtherColumns.IGNORED:
        return event, faults
    others = {path: value for path, value in leaves(content) if not is_part_of(path, paths)}
    if not others:
        return event, faults
    if mapping.other_columns is None:
        message = (
            "The mapping does not list this part of the line. Add it, with the use ignored if it "
            "is not needed, or set otherColumns."
        )
        return event, [Fault(next(iter(others)), "not_in_mapping", message)]
    if isinstance(event, dict):
        return _with_properties(event, others), faults
    return [_with_properties(each, others) for each in event], faults


def _with_properties(event: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Add properties, named by the ends of their paths, or by the paths if a name is taken."""
    properties = dict(event.get("properties", {}))
    for path, value in others.items():
        name = short_name(path).lstrip(RESERVED_PREFIX)
        properties[name if name and name not in properties else path] = value
    return event | {"properties": properties}


def object_rows(rows: Iterator[Row], read_object: ReadObject) -> Iterator[Row]:
    """Read the object in each row. Other content stays, so that it is rejected."""
    for row in within_values(rows):
        content = _object_in(row)
        if content is None:
            yield row
            continue
        event, faults = read_object(content)
        yield row_of_events(row._replace(faults=faults), event)


def _object_in(row: Row) -> dict[str, Any] | None:
    if not row.content or row.faults:
        return None
    try:
        content = parse_json(row.content)
    except Malformed:
        return None
    return content if isinstance(content, dict) else None


def sample_objects(rows: Iterator[Row]) -> Sample:
    """Return the first objects as a table, with a column for each path."""
    objects = list[dict[str, Any]]()
    for row in within_values(rows):
        if (content := _object_in(row)) is not None:
            objects.append(dict(leaves(content)))
        if len(objects) == SAMPLE_ROWS:
            break
    paths = dict.fromkeys(path for each in objects for path in each)
    columns = [path for path in paths if len(path) <= MAX_COLUMN_CHARS and not has_controls(path)]
    columns = columns[:MAX_COLUMNS]
    return Sample(columns, [[each.get(path) for path in columns] for each in objects], True)
