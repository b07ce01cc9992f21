"""Reads the rows of a table by the mapping of its columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import json

from penstock.base.clock import LATEST_MS, iso
from penstock.base.errors import Fault, Malformed
from penstock.events.imports.formats.exports import without_signs
from penstock.events.imports.formats.numbers import read_id, read_number
from penstock.events.imports.formats.reader import (
    SAMPLE_ROWS,
    TOO_MANY_VALUES,
    ReaderLimits,
    Row,
    Sample,
    UnreadableFile,
    has_too_many_values,
    within_time,
)
from penstock.events.imports.formats.schema import (
    MAX_COLUMN_CHARS,
    DecimalMark,
    ImportMapping,
    MappedColumn,
    OtherColumns,
    TimeUnit,
    Use,
    ValueType,
)
from penstock.events.imports.formats.times import FileTimes, read_time_ms
from penstock.http.bodies import parse_json
from penstock.http.schema import has_controls

Events = dict[str, Any] | list[dict[str, Any]]
"""An event, or the events of a row that can have several."""
ReadCells = Callable[[Sequence[Any]], tuple[Events, list[Fault]]]
"""Returns the events in the cells of a row, as far as they can be read, and the row's faults."""
ReadNames = Callable[[list[str]], ReadCells]
"""Returns how to read the rows of a table with these columns. Raises `UnreadableFile` if a format
does not have them.
"""
_Convert = Callable[[Any], Any]
"""Returns the value of a cell. Raises `ValueError` with a message that says what it must be."""
_NAME_FIELDS = {"pageview": "path", "screenview": "screen"}
_FIELDS_OF_VIEWS = {"pageview": ("path", "url"), "screenview": ("screen",)}
"""Fields of which a view has one."""
_LINE_FIELDS = {Use.VISITOR: "visitorId", Use.USER: "userId", Use.EVENT: "name", Use.TYPE: "type"}
_BOOLEANS = {"true": True, "t": True, "yes": True, "1": True} | {
    "false": False, "f": False, "no": False, "0": False,
}  # fmt: skip
_ID_FIELDS = ("externalSessionId", "dedupeKey", "transactionId")
_PRODUCT = "file"
"""Prefix of a property whose name without `$` is taken."""
HOW_TO_MAP = (
    "Files with other columns need a mapping: penstock import FILE --guess-mapping writes it."
)


def require_names(names: Sequence[str]) -> None:
    """Check the names of columns. Raises `UnreadableFile` if a mapping cannot have them."""
    for name in names:
        if len(name) > MAX_COLUMN_CHARS:
            raise UnreadableFile(
                f"The file names a column with more than {MAX_COLUMN_CHARS} characters."
            )
        if has_controls(name):
            raise UnreadableFile("The file names a column with control characters.")


def sample_table(read_rows: Callable[[ReadNames], Iterator[Row]], max_s: float) -> Sample:
    """Read the first rows of a table. The sample has no columns if they are not found in time.

    read_rows: reads the rows of the file in small steps. max_s: time limit in seconds.
    """
    columns, sampled = list[str](), list[Sequence[Any]]()

    def read_names(names: list[str]) -> ReadCells:
        require_names(names)
        columns.extend(names)
        return read_cells

    def read_cells(cells: Sequence[Any]) -> tuple[dict[str, Any], list[Fault]]:
        sampled.append(cells[: len(columns)])
        return {}, []

    for _ in within_time(read_rows(read_names), max_s):
        if len(sampled) == SAMPLE_ROWS:
            break
    return Sample(columns, sampled)


def mapped_rows(
    mapping: ImportMapping,
    limits: ReaderLimits,
    read_rows: Callable[[ReadNames], Iterator[Row]],
    read_by: Callable[[ImportMapping, FileTimes, Sequence[str]], ReadCells] | None = None,
) -> Iterator[Row]:
    """Yield the rows of a table.

    read_rows: reads the rows of the file. read_by: returns how to read a row; by default,
    `read_cells_by`.
    """
    times = FileTimes(ZoneInfo(mapping.timezone), compares_dates=limits.is_dry_run)
    return times.noted(read_rows(partial(read_by or read_cells_by, mapping, times)))


def read_cells_by(mapping: ImportMapping, times: FileTimes, names: Sequence[str]) -> ReadCells:
    """Return the function that reads a row of a table.

    times: reads the times of the table. names: its columns. Raises `UnreadableFile` if the mapping
    does not fit them.
    """
    require_names(names)
    by_name = {each.column: each for each in mapping.columns}
    if missing := [each.column for each in mapping.columns if each.column not in names]:
        raise UnreadableFile(f"The file does not have the column {missing[0]!r} of the mapping.")
    columns = [by_name.get(name) or _other(name, mapping) for name in names]
    properties = [each.property_name for each in columns if each.use in (Use.ATTEMPT, Use.PROPERTY)]
    for name in properties:
        if properties.count(name) > 1:
            raise UnreadableFile(
                f"Two columns would be the property {name}; give one another name in the mapping."
            )
    readers = [
        (index, each.column, each.use, _target(each), _convert(each, times))
        for index, each in enumerate(columns)
        if each.use is not Use.IGNORED
    ]
    return partial(_read_row, readers, mapping)


def _other(name: str, mapping: ImportMapping) -> MappedColumn:
    """Return the use of a column that the mapping does not list."""
    match mapping.other_columns:
        case OtherColumns.IGNORED:
            return MappedColumn(column=name, use=Use.IGNORED)
        case OtherColumns.PROPERTY if name.lstrip("$"):
            return MappedColumn(column=name, use=Use.PROPERTY)
    raise UnreadableFile(
        f"The mapping does not list the column {name!r}. Add it, with the use ignored if it is not "
        "needed, or set otherColumns."
    )


def _target(column: MappedColumn) -> str:
    """Return the name of the field or property that a column fills, or of the event at its time."""
    if column.use in (Use.ATTEMPT, Use.PROPERTY):
        return column.property_name
    if column.use is Use.TIME:
        return column.event or ""
    return _LINE_FIELDS.get(column.use) or column.name or ""


def _read_row(
    readers: Sequence[tuple[int, str, Use, str, _Convert]],
    mapping: ImportMapping,
    cells: Sequence[Any],
) -> tuple[Events, list[Fault]]:
    line: dict[str, Any] = {"type": mapping.event_type}
    times: list[tuple[str, str]] = []
    if mapping.event_name is not None:
        line["name"] = mapping.event_name
    properties: dict[str, Any] = {}
    more: dict[str, Any] = {}
    faults = []
    number = len(cells)
    kind: str | None = None
    for index, column, use, target, convert in readers:
        cell = cells[index] if index < number else None
        if cell is None or cell == "":
            continue
        try:
            value = convert(cell)
        except ValueError as error:
            code = "not_a_time" if use is Use.TIME else "wrong_type"
            faults.append(Fault(column, code, str(error)))
            continue
        if use is Use.PROPERTY or use is Use.ATTEMPT:
            properties[target] = value
        elif use is Use.PROPERTIES:
            more = value
        elif use is Use.EVENT:
            line["name"], kind = value
        elif use is Use.TIME and target:
            times.append((target, value))
        elif use is Use.TIME:
            line["timestamp"] = value
        else:
            line[target] = value
    if more or properties:
        line["properties"] = more | properties
    if mapping.names_times:
        return [_event_at(line, name, time) for name, time in times], faults
    _name_by_type(line, kind)
    return line, faults


def _event_at(line: dict[str, Any], name: str, time: str) -> dict[str, Any]:
    """Return one of the events of a row. They have different keys, so that none is a repeat."""
    event = line | {"name": name, "timestamp": time}
    if key := line.get("dedupeKey") or line.get("transactionId"):
        event["dedupeKey"] = f"{key}:{name}"
    _name_by_type(event)
    return event


def _name_by_type(line: dict[str, Any], kind: str | None = None) -> None:
    """Move the name of a page view to its path, and of a screen view to its screen.

    kind: the type of events with this name, if any. It applies to a page view whose page is known.
    """
    if kind in _NAME_FIELDS and line.keys().isdisjoint(_FIELDS_OF_VIEWS[kind]):
        kind = None
    line["type"] = kind or line["type"]
    field = _NAME_FIELDS.get(line["type"])
    if field is None or "name" not in line:
        return
    name = line.pop("name")
    if field not in line and not (field == "path" and "url" in line):
        line[field] = name


def _convert(column: MappedColumn, times: FileTimes) -> _Convert:
    match column.use:
        case Use.TIME:
            unit = column.unit or TimeUnit.TEXT
            return partial(_time, unit, column.format, times)
        case Use.VISITOR | Use.USER | Use.ATTEMPT:
            return read_id
        case Use.EVENT:
            return partial(_event, column.values or {}, column.types or {})
        case Use.TYPE:
            return partial(_type, column.values or {})
        case Use.PROPERTY if column.values:
            return partial(_replaced, column.values, _property_type(column))
        case Use.PROPERTIES:
            return _object
        case Use.FIELD if column.name in _ID_FIELDS:
            return read_id
        case Use.FIELD if column.has_numbers:
            return partial(_number, column.decimal or DecimalMark.POINT)
        case Use.PROPERTY:
            return _property_type(column)
    return _text


def _property_type(column: MappedColumn) -> _Convert:
    if column.has_numbers:
        return partial(_number, column.decimal or DecimalMark.POINT)
    return _PROPERTY_TYPES.get(column.type, _as_in_file)


def _time(unit: TimeUnit, time_format: str | None, times: FileTimes, cell: Any) -> str:
    try:
        at_ms = read_time_ms(cell, unit, time_format, times)
    except ValueError as error:
        raise ValueError(f"This time {error}.") from None
    if not 0 <= at_ms <= LATEST_MS:
        message = "This time is not between 1970 and 2299. Check the unit of the column."
        raise ValueError(message)
    return iso(at_ms)


def _event(names: Mapping[str, str], types: Mapping[str, str], cell: Any) -> tuple[str, str | None]:
    """Return the name of an event, and its type if its name states it."""
    text = _text(cell)
    return names.get(text, text), types.get(text)


def _type(values: Mapping[str, str], cell: Any) -> str:
    text = _text(cell)
    return values.get(text, text).strip().lower()


def _replaced(values: Mapping[str, str], convert: _Convert, cell: Any) -> Any:
    return convert(values.get(_text(cell), cell))


def _text(cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    return str(cell) if type(cell) is int else json.encode(cell).decode()


def _number(mark: DecimalMark, cell: Any) -> int | float:
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return cell
    return read_number(cell if isinstance(cell, str) else "", mark)


def _boolean(cell: Any) -> bool:
    value = _BOOLEANS.get(str(cell).strip().lower())
    if value is None:
        raise ValueError("Must be true or false.")
    return value


def _json(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    text = cell.encode("utf-8", "replace")
    if has_too_many_values(text):
        raise ValueError(TOO_MANY_VALUES.message)
    try:
        return parse_json(text)
    except Malformed:
        raise ValueError("Must be JSON.") from None


def _object(cell: Any) -> dict[str, Any]:
    value = _json(cell)
    if not isinstance(value, dict):
        raise ValueError("Must be a JSON object, such as {...}.")
    return without_signs(value, _PRODUCT)


def _as_in_file(cell: Any) -> Any:
    return cell


_PROPERTY_TYPES: dict[ValueType | None, _Convert] = {
    ValueType.TEXT: _text,
    ValueType.BOOLEAN: _boolean,
    ValueType.JSON: _json,
}
