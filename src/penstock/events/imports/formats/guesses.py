"""Guesses the mapping of a table from its first rows. People correct the guess before an import."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from typing import Any, NamedTuple

from penstock.base.errors import Malformed
from penstock.base.event_limits import MAX_PROPERTY_KEYS
from penstock.base.id_names import USERS, VISITORS, names_owner, words_of
from penstock.base.patterns import is_decimal, is_digits
from penstock.events.imports.formats.json_paths import short_name
from penstock.events.imports.formats.numbers import read_number
from penstock.events.imports.formats.reader import SAMPLE_ROWS, Sample, has_too_many_values
from penstock.events.imports.formats.schema import (
    FIELDS,
    MAX_COLUMNS,
    MAX_EVENTS_OF_ROW,
    DecimalMark,
    ImportMapping,
    MappedColumn,
    OtherColumns,
    TimeUnit,
    Use,
    ValueType,
)
from penstock.events.imports.formats.times import FileTimes, read_time_ms
from penstock.events.properties import RESERVED_PREFIX
from penstock.http.bodies import parse_json
from penstock.http.schema import has_controls

_MAX_NAME_CHARS = 200
_FIRST_MS, _LAST_MS = 946_684_800_000, 4_102_444_800_000
"""The years 2000 to 2099. A number outside them is not taken for a time."""
_TIMES = (
    "timestamp", "eventtime", "eventtimestamp", "occurredat", "time", "ts", "datetime", "createdat",
    "created", "at", "date", "when", "day",
)  # fmt: skip
_SURE_EVENTS = ("event", "eventname", "eventtype")
_EVENTS = ("action", "activity", "eventaction", "step", "name")
_FEW_ROWS, _MOSTLY = 8, 0.75
"""Number of rows below which it is not clear whether names repeat, and the share of different names
above which they do not.
"""
_MIN_DIGITS_OF_NUMBERS = 3
_TYPES = ("type", "kind", "eventtype", "hittype")
_TYPE_VALUES = {"event", "pageview", "screenview", "transaction"}
_ATTEMPTS = (
    "attemptid", "attempt", "checkoutid", "orderid", "cartid", "basketid", "bookingid", "quoteid",
    "applicationid", "journeyid", "processid", "caseid", "requestid", "ordernumber", "orderno",
    "bookingnumber", "invoiceid", "transactionid", "order", "case",
)  # fmt: skip
_EVENT_IDS = (
    "eventid",
    "insertid",
    "messageid",
    "dedupekey",
    "eventuuid",
    "uuid",
    "idempotencykey",
)
_OBJECTS = (
    "properties", "props", "eventproperties", "eventparams", "params", "attributes", "metadata",
    "payload", "data", "context", "details",
)  # fmt: skip
_OF_TRANSACTIONS = ("transactionId", "amount", "currency")
_FIELD_NAMES = {
    **{name.lower(): name for name in FIELDS if name not in _OF_TRANSACTIONS},
    "currenturl": "url",
    "pageurl": "url",
    "pagelocation": "url",
    "pagepath": "path",
    "pathname": "path",
    "pagetitle": "title",
    "referer": "referrer",
    "pagereferrer": "referrer",
    "screenname": "screen",
    "countrycode": "country",
    "devicetype": "device",
    "devicecategory": "device",
    "operatingsystem": "os",
    "sessionid": "externalSessionId",
}  # fmt: skip
_DEVICES = {"desktop", "mobile", "tablet", "phone", "smartphone", "tv", "console", "other"}
_NAME_ENDINGS_OF_TEXT = (
    "id", "code", "zip", "phone", "number", "no", "postcode", "key", "sku", "ip", "address",
    "version",
)  # fmt: skip
"""Endings of names whose digits are not a quantity."""
_MAX_QUANTITY_CHARS = 30
_MAX_FORMATTED = 10
"""Maximum number of columns that are compared with all formats. Compiling a format takes time."""
_ENDINGS_OF_EVENTS = (" at", "_at", "At")
_NO_EVENTS = ("updated", "modified", "changed", "synced", "expires", "lastmodified", "lastupdated")
"""Beginnings of names of times at which nothing of interest happened."""
_FORMATS = tuple(
    f"{date}{clock}"
    for date in (
        "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y",
        "%b %d, %Y", "%d-%b-%Y", "%Y%m%d", "%m/%d/%y", "%d/%m/%y", "%d.%m.%y",
    )
    for clock in (
        " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", ", %H:%M:%S", ", %I:%M:%S %p",
        " %H:%M:%S.%f", " %H:%M:%S %z", "",
    )
)  # fmt: skip
"""Formats of times other than ISO 8601. If several fit the sample, the first is the guess; a dry
run of all rows may prefer the one with day and month swapped.
"""


_KNOWN_WORDS = {*_TIMES, *USERS, *VISITORS, *_ATTEMPTS, *_EVENT_IDS, *_FIELD_NAMES}
"""Names that are also those of a path with several parts, such as `user.id`."""


class _Column(NamedTuple):
    """A column of a sample. words: its name in lower case, without spaces and signs. values:
    without empty cells. short_name: the name of a property from a path; None for other columns.
    """

    name: str
    words: str
    values: Sequence[Any]
    short_name: str | None = None


def guess_mapping(sample: Sample) -> ImportMapping:
    """Guess the use of each column. The guess may lack a use that an import needs."""
    columns = [_column(sample, index) for index in range(min(len(sample.columns), MAX_COLUMNS))]
    uses: dict[str, MappedColumn] = {}
    _guess_time(columns, uses)
    for use, names, fits in (
        (Use.TYPE, _TYPES, _are_types),
        (Use.USER, USERS, _are_ids),
        (Use.VISITOR, VISITORS, _are_ids),
        (Use.EVENT, _SURE_EVENTS, _is_short_text),
        (Use.EVENT, _EVENTS, _are_event_names),
        (Use.PROPERTIES, _OBJECTS, _are_objects),
    ):
        _guess_named(columns, uses, use, names, fits)
    _guess_times_of_events(columns, uses)
    _guess_fields(columns, uses)
    _guess_attempt(columns, uses, sample)
    has_commas = _has_decimal_commas(columns)
    mapped = _unique(uses.get(each.name) or _other(each, has_commas) for each in columns)
    # Lines of JSON often have more parts than the first ones.
    others = OtherColumns.PROPERTY if sample.has_paths else None
    return ImportMapping(columns=mapped, otherColumns=others)


def _column(sample: Sample, index: int) -> _Column:
    name = sample.columns[index]
    cells = [row[index] for row in sample.rows[:SAMPLE_ROWS] if index < len(row)]
    column = _Column(name, words_of(name), [cell for cell in cells if cell not in (None, "")])
    if not sample.has_paths or column.words in _KNOWN_WORDS:
        return column
    short = short_name(name)
    is_unique = sum(short_name(other) == short for other in sample.columns) == 1
    return column._replace(words=words_of(short), short_name=short if is_unique else None)


def _free(columns: Iterable[_Column], uses: dict[str, MappedColumn]) -> list[_Column]:
    return [each for each in columns if each.name and each.name not in uses]


def _guess_named(
    columns: Sequence[_Column],
    uses: dict[str, MappedColumn],
    use: Use,
    names: Sequence[str],
    fits: Callable[[Sequence[Any]], bool],
) -> _Column | None:
    """Give the use to the column whose name comes first in the list of names, unless a column has
    it already.
    """
    if any(each.use is use for each in uses.values()):
        return None
    for name in names:
        for each in _free(columns, uses):
            if each.words == name and fits(each.values):
                uses[each.name] = MappedColumn(column=each.name, use=use)
                return each
    return None


def _guess_time(columns: Sequence[_Column], uses: dict[str, MappedColumn]) -> None:
    """Choose the column with times: the best name first, then the first column with text."""
    ranked = sorted(
        ((_rank_of_time(each.words), index, each) for index, each in enumerate(columns)),
        key=lambda ranked: ranked[:2],
    )
    named = [each for rank, _, each in ranked if rank <= len(_TIMES) and each.name]
    others = [each for rank, _, each in ranked if rank > len(_TIMES) and each.name]
    for each in named:
        if _set_time(each, uses, _written_time(each.values)):
            return
    for each in others:
        written = _written_time(each.values)
        if written and written[0] is TimeUnit.TEXT and _set_time(each, uses, written):
            return
    for each in [*named, *others][:_MAX_FORMATTED]:
        if _set_time(each, uses, _formatted_time(each.values)):
            return
    for each in named:
        if not each.values and _set_time(each, uses, (TimeUnit.TEXT, None)):
            return


def _set_time(
    column: _Column, uses: dict[str, MappedColumn], written: tuple[TimeUnit, str | None] | None
) -> bool:
    if written is None:
        return False
    unit, time_format = written
    uses[column.name] = MappedColumn(
        column=column.name, use=Use.TIME, unit=unit, format=time_format
    )
    return True


def _guess_times_of_events(columns: Sequence[_Column], uses: dict[str, MappedColumn]) -> None:
    """Make an event of each time, such as `Created at` and `Paid at`, if there is no event name."""
    if any(each.use in (Use.EVENT, Use.TYPE) for each in uses.values()):
        return
    first = next((each for each in uses.values() if each.use is Use.TIME), None)
    names = {each.name: name for each in columns if (name := _name_of_time(each.name))}
    if first is None or first.column not in names:
        return
    unit = first.unit or TimeUnit.TEXT
    times = [
        each
        for each in columns
        if each.name in names and all(_is_time(value, unit, first.format) for value in each.values)
    ][:MAX_EVENTS_OF_ROW]
    for each in times if len(times) > 1 else ():
        changes = {"column": each.name, "event": names[each.name]}
        uses[each.name] = first.model_copy(update=changes)


def _name_of_time(column: str) -> str | None:
    """Return the event in the name of a column, such as Paid of `Paid at`; None for other names."""
    for ending in _ENDINGS_OF_EVENTS:
        name = column.removesuffix(ending).rstrip(" _")
        if name and name != column and words_of(name) not in _NO_EVENTS:
            return name
    return None


def _rank_of_time(words: str) -> int:
    """Return a small number for a good name of times; at most the number of names for any name."""
    if words in _TIMES:
        return _TIMES.index(words)
    endings = ("timestamp", "time", "date", "at", "ts", "ms", "us", "seconds", "on")
    return len(_TIMES) + (not words.endswith(endings))


def _written_time(values: Sequence[Any]) -> tuple[TimeUnit, str | None] | None:
    """Return how the column writes times, as numbers or as ISO 8601; None if some value is not a
    time.
    """
    for unit in (TimeUnit.SECONDS, TimeUnit.MILLISECONDS, TimeUnit.MICROSECONDS, TimeUnit.TEXT):
        if values and all(_is_time(value, unit, None) for value in values):
            return unit, None
    return None


def _formatted_time(values: Sequence[Any]) -> tuple[TimeUnit, str | None] | None:
    """Return the format in which all values are times; None if no format fits."""
    for time_format in _FORMATS:
        if values and all(_is_time(value, TimeUnit.TEXT, time_format) for value in values):
            return TimeUnit.TEXT, time_format
    return None


def _is_time(value: Any, unit: TimeUnit, time_format: str | None) -> bool:
    if unit is TimeUnit.TEXT and not isinstance(value, str):
        return False
    try:
        return _FIRST_MS <= read_time_ms(value, unit, time_format, FileTimes(UTC)) < _LAST_MS
    except ValueError:
        return False


def _are_types(values: Sequence[Any]) -> bool:
    return bool(values) and {str(value).lower() for value in values} <= _TYPE_VALUES


def _are_ids(values: Sequence[Any]) -> bool:
    texts = {str(value).lower() for value in values}
    return not texts or not texts <= _DEVICES


def _is_short_text(values: Sequence[Any]) -> bool:
    return all(
        isinstance(value, str)
        and len(value) <= _MAX_NAME_CHARS
        and not is_decimal(value)
        and not _is_container(value)
        for value in values
    )


def _are_event_names(values: Sequence[Any]) -> bool:
    """Whether texts repeat, as event names do. Order numbers such as #1001 are none."""
    if not _is_short_text(values):
        return False
    texts = set(values)
    are_numbers = all(sum(map(is_digits, text)) >= _MIN_DIGITS_OF_NUMBERS for text in texts)
    if values and are_numbers:
        return False
    return len(values) < _FEW_ROWS or len(texts) <= _MOSTLY * len(values)


def _are_attempt_ids(values: Sequence[Any]) -> bool:
    return bool(values) and _are_ids(values)


def _are_objects(values: Sequence[Any]) -> bool:
    return all(isinstance(_parsed(value), dict) for value in values)


def _is_container(value: Any) -> bool:
    return isinstance(_parsed(value), dict | list)


def _parsed(value: Any) -> Any:
    """Return the object or array that a cell contains as JSON text; any other value unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    text = value.encode("utf-8", "replace")
    if has_too_many_values(text):
        return value
    try:
        return parse_json(text)
    except Malformed:
        return value


def _guess_fields(columns: Sequence[_Column], uses: dict[str, MappedColumn]) -> None:
    taken = set()
    for each in _free(columns, uses):
        field = _FIELD_NAMES.get(each.words)
        if each.words in _EVENT_IDS:
            texts = [str(value) for value in each.values]
            field = "dedupeKey" if len(set(texts)) == len(texts) else None
        if field is None or field in taken or not _fits_field(field, each.values):
            continue
        taken.add(field)
        uses[each.name] = MappedColumn(column=each.name, use=Use.FIELD, name=field)


def _fits_field(field: str, values: Sequence[Any]) -> bool:
    if field in ("externalSessionId", "dedupeKey"):
        return True
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values):
        return False
    if field == "path":
        return all(text.startswith("/") for text in texts)
    return field not in ("url", "referrer") or all("://" in text for text in texts)


def _guess_attempt(
    columns: Sequence[_Column], uses: dict[str, MappedColumn], sample: Sample
) -> None:
    """Choose the column with attempt IDs: by its name, or else an ID that several events of one
    person have.
    """
    if _guess_named(columns, uses, Use.ATTEMPT, _ATTEMPTS, _are_attempt_ids):
        return
    by_use = {each.use: sample.columns.index(each.column) for each in uses.values()}
    person = by_use.get(Use.USER, by_use.get(Use.VISITOR))
    event = by_use.get(Use.EVENT)
    if person is None or event is None:
        return
    for each in _free(columns, uses):
        is_id = each.words.endswith(("id", "no", "number")) and not names_owner(each.name)
        if is_id and _joins_events(sample, sample.columns.index(each.name), person, event):
            uses[each.name] = MappedColumn(column=each.name, use=Use.ATTEMPT)
            return


def _joins_events(sample: Sample, column: int, person: int, event: int) -> bool:
    """Whether some value is on several events, and no value belongs to two people."""
    events = dict[str, set[Any]]()
    people = dict[str, set[Any]]()
    for row in sample.rows[:SAMPLE_ROWS]:
        if len(row) <= max(column, person, event) or row[column] in (None, ""):
            continue
        events.setdefault(str(row[column]), set()).add(str(row[event]))
        people.setdefault(str(row[column]), set()).add(str(row[person]))
    return (
        len(events) > 1
        and all(len(each) == 1 for each in people.values())
        and any(len(each) > 1 for each in events.values())
    )


def _has_decimal_commas(columns: Sequence[_Column]) -> bool:
    """Whether the table writes decimal commas: some column has no other reading, and none excludes
    this one.
    """
    marks = [marks for each in columns if len(marks := _decimal_marks(each)) == 1]
    return bool(marks) and all(each == [DecimalMark.COMMA] for each in marks)


def _decimal_marks(column: _Column) -> list[DecimalMark]:
    """Return the decimal marks with which all values of a column are numbers."""
    values = column.values
    if not values or column.words.endswith(_NAME_ENDINGS_OF_TEXT):
        return []
    return [mark for mark in DecimalMark if all(_is_quantity(value, mark) for value in values)]


def _other(column: _Column, has_commas: bool) -> MappedColumn:
    name = (column.short_name or column.name).lstrip(RESERVED_PREFIX)
    is_named = bool(name) and not has_controls(name) and len(name) <= _MAX_NAME_CHARS
    if not is_named or column.words.startswith("unnamed"):
        return MappedColumn(column=column.name, use=Use.IGNORED)
    marks = _decimal_marks(column)
    is_comma = marks == [DecimalMark.COMMA] or (
        has_commas
        and len(marks) > 1
        and any("." in value or "," in value for value in column.values)
    )
    return MappedColumn(
        column=column.name,
        use=Use.PROPERTY,
        name=column.short_name if column.short_name != column.name else None,
        type=ValueType.NUMBER if marks else _value_type(column),
        decimal=DecimalMark.COMMA if is_comma else None,
    )


def _value_type(column: _Column) -> ValueType | None:
    """Return the type of a property's values that are not numbers in text. The type of values that
    are not text is known.
    """
    values = column.values
    if not values or not all(isinstance(value, str) for value in values):
        return None
    if {value.lower() for value in values} <= {"true", "false"}:
        return ValueType.BOOLEAN
    return ValueType.JSON if all(_is_container(value) for value in values) else None


def _is_quantity(value: Any, mark: DecimalMark) -> bool:
    """Whether a text is a number. Digits after a leading zero are a code, such as 007."""
    if not isinstance(value, str) or len(value) > _MAX_QUANTITY_CHARS:
        return False
    digits = value[value.find("0") :] if value.lstrip("-")[:1] == "0" else ""
    if len(digits) > 1 and is_digits(digits[1]):
        return False
    try:
        read_number(value, mark)
    except ValueError:
        return False
    return True


def _unique(columns: Iterable[MappedColumn]) -> list[MappedColumn]:
    """Ignore columns that would repeat a property, or be one more than an event may have."""
    names, unique = set[str](), list[MappedColumn]()
    for each in columns:
        is_property = each.use in (Use.ATTEMPT, Use.PROPERTY)
        if is_property and (each.property_name in names or len(names) == MAX_PROPERTY_KEYS):
            unique.append(MappedColumn(column=each.column, use=Use.IGNORED))
            continue
        if is_property:
            names.add(each.property_name)
        unique.append(each)
    return unique
