"""Reads the rows of a table by the mapping of its columns."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import json

from penstock.base.clock import LATEST_MS, iso
from penstock.base.errors import Fault, Malformed
from penstock.base.patterns import is_decimal
from penstock.events.imports.formats.exports import without_signs
from penstock.events.imports.formats.reader import (
    SAMPLE_ROWS,
    TOO_MANY_VALUES,
    ReaderLimits,
    Row,
    Sample,
    UnreadableFile,
    has_too_many_values,
)
from penstock.events.imports.formats.schema import (
    MAX_COLUMN_CHARS,
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

ReadCells = Callable[[Sequence[Any]], tuple[dict[str, Any], list[Fault]]]
"""Returns the event in the cells of a row, as far as it can be read, and the faults of the row."""
ReadNames = Callable[[list[str]], ReadCells]
"""Returns how to read the rows of a table with these columns. Raises `UnreadableFile` if a format
does not have them.
"""
_Convert = Callable[[Any], Any]
"""Returns the value of a cell. Raises `ValueError` with a message that says what it must be."""
_NAME_FIELDS = {"pageview": "path", "screenview": "screen"}
_LINE_FIELDS = {Use.VISITOR: "visitorId", Use.USER: "userId", Use.EVENT: "name", Use.TYPE: "type"}
_BOOLEANS = {"true": True, "t": True, "yes": True, "1": True} | {
    "false": False, "f": False, "no": False, "0": False,
}  # fmt: skip
_MAX_NUMBER_CHARS = 40
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

    until_s = monotonic() + max_s
    for _ in read_rows(read_names):
        if len(sampled) == SAMPLE_ROWS or monotonic() > until_s:
            break
    return Sample(columns, sampled)


def mapped_rows(
    mapping: ImportMapping, limits: ReaderLimits, read_rows: Callable[[ReadNames], Iterator[Row]]
) -> Iterator[Row]:
    """Yield the rows of a table. read_rows: reads the rows of the file."""
    times = FileTimes(ZoneInfo(mapping.timezone), compares_dates=limits.is_dry_run)
    return times.noted(read_rows(partial(read_cells_by, mapping, times)))


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
    """Return the name of the field or property that a column fills."""
    if column.use in (Use.ATTEMPT, Use.PROPERTY):
        return column.property_name
    return _LINE_FIELDS.get(column.use) or column.name or ""


def _read_row(
    readers: Sequence[tuple[int, str, Use, str, _Convert]],
    mapping: ImportMapping,
    cells: Sequence[Any],
) -> tuple[dict[str, Any], list[Fault]]:
    line: dict[str, Any] = {"type": mapping.event_type}
    if mapping.event_name is not None:
        line["name"] = mapping.event_name
    properties: dict[str, Any] = {}
    more: dict[str, Any] = {}
    faults = []
    number = len(cells)
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
        elif use is Use.TIME:
            line["timestamp"] = value
        else:
            line[target] = value
    if more or properties:
        line["properties"] = more | properties
    _name_by_type(line)
    return line, faults


def _name_by_type(line: dict[str, Any]) -> None:
    """Move the name of a page view to its path, and of a screen view to its screen."""
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
            return _id
        case Use.TYPE:
            return _type
        case Use.PROPERTIES:
            return _object
        case Use.FIELD if column.name == "amount":
            return _number
        case Use.PROPERTY:
            return _PROPERTY_TYPES.get(column.type, _as_in_file)
    return _text


def _time(unit: TimeUnit, time_format: str | None, times: FileTimes, cell: Any) -> str:
    try:
        at_ms = read_time_ms(cell, unit, time_format, times)
    except ValueError as error:
        raise ValueError(f"This time {error}.") from None
    if not 0 <= at_ms <= LATEST_MS:
        message = "This time is not between 1970 and 2299. Check the unit of the column."
        raise ValueError(message)
    return iso(at_ms)


def _id(cell: Any) -> str:
    """Return an ID as text. A table may store whole numbers as floats, if other cells are empty."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        raise ValueError("An ID must be a text or a whole number.")
    return str(cell)


def _type(cell: Any) -> str:
    return _text(cell).strip().lower()


def _text(cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    return str(cell) if type(cell) is int else json.encode(cell).decode()


def _number(cell: Any) -> int | float:
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return cell
    text = cell.strip() if isinstance(cell, str) else ""
    if len(text) > _MAX_NUMBER_CHARS or not is_decimal(text):
        raise ValueError("Must be a number, such as 19.99.")
    return float(text) if "." in text else int(text)


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
    ValueType.NUMBER: _number,
    ValueType.BOOLEAN: _boolean,
    ValueType.JSON: _json,
}
