"""Splits long query parameters for ClickHouse servers.

A server refuses a form field of 131,072 bytes or more, so a long array is sent in several fields,
and the statement joins them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clickhouse_connect.driver.binding import format_bind_value

from penstock.base.patterns import Match, Pattern

_PLACEHOLDER = Pattern(r"\{(\w+):([^{}]+)\}")
_FIELD_BYTES = 120_000
_FIELDS = 1_000


def split_into_fields(sql: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Split arrays that are too long for one field, and join them in the statement.

    Raises `ValueError` if the parameters need more than 1,000 fields.
    """
    fields, names = dict[str, Any](), dict[str, list[str]]()
    for name, value in parameters.items():
        shares = list(_shares(value)) if isinstance(value, list) else [value]
        if len(shares) == 1:
            fields[name] = value
        else:
            names[name] = [f"{name}_{number}" for number in range(len(shares))]
            fields.update(zip(names[name], shares, strict=True))
    if len(fields) > _FIELDS:
        raise ValueError(f"the parameters of the statement need {len(fields)} fields")

    def join_shares(match: Match) -> str:
        if match[1] not in names:
            return f"{{{match[1]}:{match[2]}}}"
        placeholders = (f"{{{name}:{match[2]}}}" for name in names[match[1]])
        return f"arrayConcat({', '.join(placeholders)})"

    return (_PLACEHOLDER.sub(join_shares, sql) if names else sql), fields


def _shares(values: Sequence[Any]) -> Iterator[list[Any]]:
    share, size = list[Any](), 0
    for value in values:
        bytes_ = len(format_bind_value(value, top_level=False).encode()) + len(", ")
        if share and size + bytes_ > _FIELD_BYTES:
            yield share
            share, size = [], 0
        share.append(value)
        size += bytes_
    yield share
