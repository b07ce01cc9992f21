"""A funnel's report as a table: CSV, JSON or Parquet. Columns: contract, "Funnels".

One row for the total and one for every cohort. The engine's rows arrive in blocks and are written
to a file block by block, so that hundreds of thousands of cohorts need little memory. The file is
sent when it is complete, so that a slow reader does not occupy the engine.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from tempfile import TemporaryFile
from typing import IO, Any

from msgspec import json

from penstock.base.ids import WorkspaceId
from penstock.base.patterns import Pattern
from penstock.base.rates import rate
from penstock.base.scalar import Scalar, untagged
from penstock.funnels.definitions.model import Definition
from penstock.funnels.queries.pipeline import FunnelQueryRunner
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.results.schema import ExportQuery
from penstock.funnels.results.shaping import MS_PER_MINUTE
from penstock.funnels.statements.report import build_export

UNKNOWN = "Unknown"

_FORMULA_SIGNS = "=+-@＝＋－＠﹦﹢﹣﹫"
"""A spreadsheet may take a text for a formula that begins with one, also full-width or small.

Source: OWASP, "CSV Injection".
"""
_DROPPED = (
    "".join(character for character in map(chr, range(0x3001)) if character.isspace())
    + "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
)
"""Blanks that a spreadsheet may drop in front of a sign."""

_NUMBER = Pattern(r"-?(\p{Nd}+\.?\p{Nd}*|\.\p{Nd}+)([eE][+-]?\p{Nd}+)?")
_WORDS = ("true", "false", "unknown")


class Format(StrEnum):
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


MEDIA_TYPES = {
    Format.CSV: "text/csv",
    Format.JSON: "application/json",
    Format.PARQUET: "application/vnd.apache.parquet",
}

Figures = Sequence[int | float | None]
TableRow = tuple[Sequence[Scalar | None] | None, Figures]
"""Entry values, None for the total; and the figures in the order of `figure_names`."""


class ExportService:
    """Methods block: call them from a worker thread."""

    def __init__(self, runner: FunnelQueryRunner) -> None:
        self._runner = runner

    def export(self, workspace_id: WorkspaceId, funnel_id: str, query: ExportQuery) -> IO[bytes]:
        """The complete table in an open temporary file, at its start.

        Errors as of `FunnelQueryRunner.prepare`.
        """
        source = SavedFunnel(funnel_id, query.revision)
        context = self._runner.prepare(workspace_id, source, query.selection())
        ask = partial(build_export, context.definition, context.params)
        file = TemporaryFile()  # noqa: SIM115 - the caller closes it

        def write(blocks: Iterable[Sequence[Mapping[str, Any]]]) -> None:
            file.seek(0)
            file.truncate()
            write_table(context.definition, blocks, Format(query.format), file)

        try:
            self._runner.stream(context, ask, write)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file


def write_table(
    definition: Definition,
    blocks: Iterable[Sequence[Mapping[str, Any]]],
    table_format: Format,
    file: IO[bytes],
) -> None:
    """Write the rows of `build_export`, which come in blocks, to a file."""
    with _WRITERS[table_format](definition, file) as writer:
        for rows in _table_rows(definition, blocks):
            writer.write(rows)


def figure_names(definition: Definition) -> list[str]:
    names = ["entered"]
    for step in range(1, len(definition.steps) + 1):
        names += [f"step_{step}_count", f"step_{step}_pending", f"step_{step}_dropped_off"]
    return [
        *names,
        "completed",
        "pending",
        "dropped_off",
        "conversion_rate",
        "median_completion_minutes",
    ]


def _table_rows(
    definition: Definition, blocks: Iterable[Sequence[Mapping[str, Any]]]
) -> Iterator[list[TableRow]]:
    """The rows block by block, with a total even without entries."""
    n, is_empty = len(definition.steps), True
    for block in blocks:
        is_empty = False
        yield [
            (
                None if row["is_total"] else [untagged(text) for text in row["texts"]],
                _figures(n, row),
            )
            for row in block
        ]
    if is_empty:
        yield [(None, _figures(n, {"counts": [], "pendings": [], "median_ms": None}))]


def _figures(n: int, row: Mapping[str, Any]) -> Figures:
    counts = row["counts"] or [0] * n
    pendings = [*(row["pendings"] or [0] * (n - 1)), 0]
    dropped = [*(counts[k] - counts[k + 1] - pendings[k] for k in range(n - 1)), 0]
    figures: list[int | float | None] = [counts[0]]
    for step in zip(counts, pendings, dropped, strict=True):
        figures += step
    median = row["median_ms"] / MS_PER_MINUTE if counts[-1] else None
    return [*figures, counts[-1], sum(pendings), sum(dropped), rate(counts[-1], counts[0]), median]


class _Writer(ABC):
    """Writes a table to a file block by block. The table is complete when the context ends."""

    def __init__(self, definition: Definition, file: IO[bytes]) -> None:
        self.properties, self.figures, self.file = (
            definition.breakdown_properties,
            figure_names(definition),
            file,
        )
        self.begin()

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def write(self, rows: Sequence[TableRow]) -> None: ...

    @abstractmethod
    def end(self) -> None: ...

    def property_columns(self, *suffixes: str) -> list[str]:
        """Names of the breakdown columns, with a prefix where a name is in use.

        suffixes: of further columns next to each.
        """
        used, columns = set(self.figures), []
        for name in self.properties:
            while used & {name, *(name + suffix for suffix in suffixes)}:
                name = f"cohort_{name}"
            columns.append(name)
            used |= {name, *(name + suffix for suffix in suffixes)}
        return columns


class _JsonWriter(_Writer):
    """A list of objects: `cohort` with typed values (null for the total) and the figures."""

    def begin(self) -> None:
        self._separator = b"[\n"

    def write(self, rows: Sequence[TableRow]) -> None:
        for values, figures in rows:
            cohort = None if values is None else dict(zip(self.properties, values, strict=True))
            self.file.write(
                self._separator
                + json.encode({"cohort": cohort, **dict(zip(self.figures, figures, strict=True))})
            )
            self._separator = b",\n"

    def end(self) -> None:
        self.file.write(b"\n]\n")


class _ArrowWriter(_Writer):
    """Common to CSV and Parquet: a schema, and batches of columns."""

    def schema(self) -> Any:
        import pyarrow as pa

        floats = ("conversion_rate", "median_completion_minutes")
        texts = [(name, pa.string()) for name in self.text_columns()]
        return pa.schema(
            [
                *texts,
                *((name, pa.float64() if name in floats else pa.int64()) for name in self.figures),
            ]
        )

    @abstractmethod
    def text_columns(self) -> list[str]: ...

    @abstractmethod
    def texts(self, values: Sequence[Scalar | None] | None) -> list[str | None]: ...

    def batch(self, rows: Sequence[TableRow]) -> Any:
        import pyarrow as pa

        schema = self.schema()
        table = [[*self.texts(values), *figures] for values, figures in rows]
        columns = zip(*table, strict=True)
        return pa.record_batch(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
            schema=schema,
        )


class _CsvWriter(_ArrowWriter):
    """Each value has its own spelling, so that a reader can tell types apart.

    Missing values are `Unknown`, the cells of the total are empty. Numbers and booleans are bare.
    A text that looks like one of these is a JSON string, in quotes. A text that a spreadsheet would
    run as a formula begins with an apostrophe.
    """

    def begin(self) -> None:
        from pyarrow import csv

        self._csv = csv.CSVWriter(self.file, self.schema())

    def text_columns(self) -> list[str]:
        return [_harmless(name) for name in self.property_columns()]

    def texts(self, values: Sequence[Scalar | None] | None) -> list[str | None]:
        if values is None:
            return [None] * len(self.properties)
        return [
            UNKNOWN
            if value is None
            else _unambiguous(value)
            if isinstance(value, str)
            else _plain(value)
            for value in values
        ]

    def write(self, rows: Sequence[TableRow]) -> None:
        self._csv.write_batch(self.batch(rows))

    def end(self) -> None:
        self._csv.close()


class _ParquetWriter(_ArrowWriter):
    """Two columns for each breakdown property: its text, and its JSON type in `<name>_type`.

    The type is `missing` for a missing value and `total` for the total.
    """

    def begin(self) -> None:
        from pyarrow import parquet

        self._parquet = parquet.ParquetWriter(self.file, self.schema(), compression="zstd")

    def text_columns(self) -> list[str]:
        return [
            column for name in self.property_columns("_type") for column in (name, f"{name}_type")
        ]

    def texts(self, values: Sequence[Scalar | None] | None) -> list[str | None]:
        if values is None:
            return [None, "total"] * len(self.properties)
        return [
            cell
            for value in values
            for cell in (None if value is None else _plain(value), _type(value))
        ]

    def write(self, rows: Sequence[TableRow]) -> None:
        self._parquet.write_batch(self.batch(rows))

    def end(self) -> None:
        self._parquet.close()


_WRITERS: Mapping[Format, type[_Writer]] = {
    Format.CSV: _CsvWriter,
    Format.JSON: _JsonWriter,
    Format.PARQUET: _ParquetWriter,
}


def _unambiguous(text: str) -> str:
    """The text, in quotes where the cell would read as another value."""
    return json.encode(text).decode() if _looks_like_another_value(text) else _harmless(text)


def _looks_like_another_value(text: str) -> bool:
    """Whether a reader of a CSV cell would take a text for something else.

    Such as an empty cell, a number, a boolean, the missing value, a text in quotes, or a formula
    that was made harmless.
    """
    trimmed = text.strip()
    return (
        not trimmed
        or text.lower() in _WORDS
        or text.startswith('"')
        or (text.startswith("'") and _is_formula(text[1:]))
        or _NUMBER.fullmatch(trimmed) is not None
    )


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may run the text: it begins with a sign or a control character."""
    begins_with_control = text[:1] < " " or "\x7f" <= text[:1] <= "\x9f"
    sign = text.lstrip(_DROPPED)[:1]
    return text != "" and (begins_with_control or (sign != "" and sign in _FORMULA_SIGNS))


def _harmless(text: str) -> str:
    """The text, marked where a spreadsheet would run it as a formula."""
    return f"'{text}" if _is_formula(text) else text


def _plain(value: Scalar) -> str:
    return value if isinstance(value, str) else json.encode(value).decode()


def _type(value: Scalar | None) -> str:
    if value is None:
        return "missing"
    return (
        "string" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "number"
    )
