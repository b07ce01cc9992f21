"""`penstock import --map` and `--guess-mapping`: the mapping of a table's columns as TOML."""

import json
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.base.errors import PenstockError
from penstock.base.hidden_text import printable
from penstock.cli.client import listed_records, service_client
from penstock.cli.import_dry_run import with_progress
from penstock.cli.options import WRONG_USE, fail
from penstock.cli.progress import progress
from penstock.events.imports.formats.guesses import guess_mapping
from penstock.events.imports.formats.reader import (
    HEAD_BYTES,
    DateOrder,
    Reader,
    ReaderLimits,
    Sample,
    UnreadableFile,
)
from penstock.events.imports.formats.recognition import product_of_table, reader_of_head
from penstock.events.imports.formats.schema import (
    FIELDS,
    CompleteMapping,
    ImportMapping,
    MappedColumn,
    Use,
)
from penstock.events.imports.formats.times import common_order, swapped_format
from penstock.events.imports.formats.unpacking import unpacked_head
from penstock.http.bodies import parse_model

_SHOWN_ROWS, _SHOWN_COLUMNS, _SHOWN_CHARS = 5, 8, 18
_SHOWN_VALUES, _SHOWN_VALUE_CHARS = 3, 40
_EITHER_ORDER = "every date can be read with the day or the month first."
_HELP = f"""\
# The columns of {{file}}, with their first values and what we guess that they contain.
# Correct the guesses, then run: penstock import {{file}} --map {{mapping}} --website web_...
#
# use = "time"        the time, with a unit: "seconds", "milliseconds" or "microseconds" since 1970,
#                     or "text". Text is ISO 8601, or has a format = "%d.%m.%Y %H:%M:%S".
#                     event = "paid" names the event at this time; then several columns may be times
# use = "visitor"     the ID of a device or browser
# use = "user"        your own ID of a person
# use = "event"       the name of the event. values = {{{{ ev_17 = "Order paid" }}}} renames it, and
#                     types = {{{{ page_view = "pageview" }}}} states the type by the name
# use = "type"        event, pageview, screenview or transaction
# use = "attempt"     an ID of a journey, such as an order; becomes a property with text
# use = "property"    a property: name = "plan" renames it, and type = "number", "boolean", "json"
#                     or "text" converts it. decimal = "comma" reads 1.234,50
# use = "properties"  a JSON object with properties
# use = "field"       one of the fields, name = "..." : {", ".join(FIELDS)}
# use = "ignored"     not imported
"""


def find_mapping(source: str, url: str, api_key: str) -> ImportMapping:
    """Read a mapping from a file, or the saved one with this name or ID from the service.

    Ends the command if there is none.
    """
    path = Path(source)
    if path.is_file() or path.suffix == ".toml":
        return read_mapping(path)
    with service_client(url, api_key, owns="saved mapping") as client:
        saved = [
            each["mapping"]
            for each in listed_records(client, "/api/import-mappings")
            if source in (each["name"], each["id"])
        ]
    if not saved:
        fail(f"--map: There is no file and no saved mapping named {source}.", WRONG_USE)
    return ImportMapping.model_validate(saved[0])


def read_mapping(path: Path) -> CompleteMapping:
    """Read a mapping. Ends the command if it is not complete."""
    try:
        content = tomllib.loads(path.read_text("utf-8-sig"))
        return parse_model(json.dumps(content, default=str).encode(), CompleteMapping)
    except OSError as error:
        fail(f"{path}: {error.strerror}", WRONG_USE)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        fail(f"{path} is not TOML: {error}", WRONG_USE)
    except PenstockError as error:
        faults = [f"{fault.field}: {fault.message}" for fault in error.faults]
        fail("\n  ".join([f"{path}:", *(faults or [error.detail])]), WRONG_USE)


def guess(file: Path, reader: Reader, target: Path, timezone: str | None) -> None:
    """Print the first rows of a table, and write the guessed mapping.

    timezone: the time zone of its times; None if it is not known.
    """
    try:
        with file.open("rb") as content:
            product = reader_of_head(unpacked_head(content.read(2 * HEAD_BYTES)))
    except UnreadableFile as error:
        fail(f"{file}: {error}", WRONG_USE)
    product = product_of_table(file, reader) or product
    if product is not None and product.sample is None:
        reader = product
    if reader.sample is None:
        advice = f"Run: penstock import {file} --from {reader.name} --website web_..."
        fail(f"--guess-mapping: The format {reader.name} needs no mapping. {advice}", WRONG_USE)
    if target.exists():
        fail(f"{target} exists already; correct it, or remove it first.", WRONG_USE)
    try:
        sample = reader.sample(file, ReaderLimits(sys.maxsize, sys.maxsize))
    except UnreadableFile as error:
        fail(f"{file}: {error}", WRONG_USE)
    mapping, is_either = _with_date_order(guess_mapping(sample), file, reader)
    mapping = mapping.model_copy(update={"timezone": timezone or mapping.timezone})
    target.write_text(_mapping_toml(mapping, sample, file, target, is_either), "utf-8")
    _print_rows(sample)
    print()
    for column in mapping.columns:
        print(f"{_cell(column.column or '(no name)'):<{_SHOWN_CHARS}}  {_described(column)}")
    print()
    if is_either:
        print(f"Check the format: {_EITHER_ORDER}")
    for gap in mapping.gaps():
        print(f"Still missing: {gap.message}")
    print(f"Wrote the guess to {target}. Correct it, then run:")
    print(f"penstock import {file} --map {target} --dry-run")


def _with_date_order(
    mapping: ImportMapping, file: Path, reader: Reader
) -> tuple[ImportMapping, bool]:
    """Choose the order of day and month that all rows of the file allow.

    Returns the mapping, and whether all rows allow both orders.
    """
    swapped = swapped_format(mapping.time_format)
    if swapped is None or reader.mapped is None:
        return mapping, False
    orders = set[DateOrder]()
    limits = ReaderLimits(sys.maxsize, sys.maxsize, is_dry_run=True)
    with progress() as bar, suppress(UnreadableFile):
        rows = reader.mapped(mapping).rows(file, limits)
        for row in with_progress(rows, bar, file.stat().st_size):
            if row.date_order is not None:
                orders.add(row.date_order)
    order = common_order(orders)
    if order is DateOrder.SWAPPED:
        mapping = mapping.with_time_format(swapped)
    return mapping, order is DateOrder.EITHER


def _described(column: MappedColumn) -> str:
    values = (
        column.unit, column.format, column.name, column.type, column.decimal, column.event,
    )  # fmt: skip
    return " ".join([column.use, *(f"({value})" for value in values if value is not None)])


def _print_rows(sample: Sample) -> None:
    columns = sample.columns[:_SHOWN_COLUMNS]
    more = len(sample.columns) - len(columns)
    for row in [columns, *sample.rows[:_SHOWN_ROWS]]:
        cells = [_cell(_text(cell)) for cell in row[:_SHOWN_COLUMNS]]
        print("  ".join(f"{cell:<{_SHOWN_CHARS}}" for cell in cells).rstrip())
    if more > 0:
        print(f"and {more:,} more columns")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cell(text: str, limit: int = _SHOWN_CHARS) -> str:
    """Shorten a text, and replace control characters, which could change what a terminal shows."""
    shown = printable(text[:limit])
    return shown if len(text) <= limit else f"{shown[:-1]}…"


def _mapping_toml(
    mapping: ImportMapping, sample: Sample, file: Path, target: Path, is_either: bool
) -> str:
    names = {"file": _cell(file.name, 200), "mapping": _cell(target.name, 200)}
    lines = [_HELP.format(**names), "columns = ["]
    for index, column in enumerate(mapping.columns):
        values = [_text(row[index]) for row in sample.rows if index < len(row)]
        shown = [_cell(value, _SHOWN_VALUE_CHARS) for value in values if value][:_SHOWN_VALUES]
        lines.append(f"  # {' | '.join(shown) or '(empty)'}")
        if is_either and column.use is Use.TIME:
            lines.append(f"  # Check the format: {_EITHER_ORDER}")
        fields = column.model_dump(mode="json", exclude_none=True)
        pairs = ", ".join(f"{name} = {_toml_text(value)}" for name, value in fields.items())
        lines.append(f"  {{ {pairs} }},")
    lines += [
        "]",
        "",
        "# The name of every event, if no column has it:",
        '# eventName = "order_paid"',
        "# The time zone of times without an offset:",
        f'timezone = "{mapping.timezone}"',
        "# The use of columns that a later file has in addition, property or ignored. Without it,",
        "# such a file is rejected.",
        f'{"" if mapping.other_columns else "# "}otherColumns = "property"',
        "",
    ]
    return "\n".join(lines)


def _toml_text(text: str) -> str:
    """Write a text as a TOML string, which has the same escapes as JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
