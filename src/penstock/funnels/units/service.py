"""Who is behind a number: lists of counted units."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from msgspec import DecodeError, json

from penstock.base.clock import iso, iso_or_none
from penstock.base.errors import Fault
from penstock.base.ids import WorkspaceId
from penstock.base.scalar import untagged
from penstock.funnels.definitions.model import Definition
from penstock.funnels.results.asking import Asker, bad_parameters
from penstock.funnels.results.inquiry import Inquiry
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.one_unit import unit_names
from penstock.funnels.statements.units import Outcome, Position, Quality, Wanted, units_page
from penstock.funnels.units.schema import UnitRecord, UnitsQuery, UnitsRecord

_OF_A_PROPERTY = (Quality.UNKNOWN_ENTRY_VALUE, Quality.CONFLICT)


class UnitService:
    """Its methods block; call them from a worker thread."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def units(self, workspace_id: WorkspaceId, funnel_id: str, query: UnitsQuery) -> UnitsRecord:
        """One page. Errors as of `Asker.saved`; Malformed for a parameter that this funnel has no use for."""
        inquiry = self._asker.saved(workspace_id, funnel_id, query)
        wanted = wanted_units(inquiry.definition, query)
        after = None
        if query.cursor is not None:
            evaluated_at_ms, after = _position(query.cursor, _asked(funnel_id, query), self._asker.now_ms())
            # Later pages see the moment of the first one, so that no unit changes sides between them.
            inquiry = replace(inquiry, question=replace(inquiry.question, evaluated_at_ms=evaluated_at_ms))
        counted = CountedUnits(inquiry.definition, inquiry.question, inquiry.facts)
        records = self._asker.records(units_page(counted, wanted, after, query.page_size + 1), inquiry)
        shown = records[: query.page_size]
        names = self.names(inquiry, [record["unit"] for record in shown])
        return UnitsRecord.model_validate(
            {
                **inquiry.head,
                "total": records[0]["total"] if records else 0,
                "nextCursor": _cursor(inquiry, _asked(funnel_id, query), shown[-1]) if len(records) > len(shown) else None,
                "data": [_record(inquiry, record, names) for record in shown],
            }
        )

    def names(
        self, inquiry: Inquiry, units: Sequence[int], definition: Definition | None = None, *, every_name: bool = False
    ) -> dict[int, str]:
        """What units are called. definition: of another counting unit than the inquiry's. every_name: also of units that match no row."""
        if not units:
            return {}
        statement = unit_names(definition or inquiry.definition, inquiry.question, inquiry.facts, units, every_name=every_name)
        return {record["unit"]: record["name"] for record in self._asker.records(statement, inquiry)}


def wanted_units(definition: Definition, query: UnitsQuery) -> Wanted:
    """The conditions of a query, held against the funnel; Malformed with every parameter that does not fit."""
    steps = definition.steps
    diagnostics = [place for place, row in enumerate(definition.rows) if row.diagnostic]
    faults: dict[str, str] = {}
    others: list[Fault] = []
    if query.step is not None and query.step > len(steps):
        faults["step"] = f"This funnel has {len(steps)} steps."
    if query.option is not None and query.step is None:
        faults["option"] = "Give step as well, whose option it is."
    elif query.option is not None and "step" not in faults and query.option >= len(steps[(query.step or 1) - 1].matches):
        faults["option"] = f"Step {query.step} has {len(steps[(query.step or 1) - 1].matches)} options, numbered from 0."
    if query.diagnostic is not None and query.diagnostic not in diagnostics:
        known = ", ".join(map(str, diagnostics)) or "none"
        faults["diagnostic"] = f"This row is no diagnostic row; the funnel has: {known}."
    if query.property is not None and query.quality not in _OF_A_PROPERTY:
        faults["property"] = f"Goes with quality {' or '.join(_OF_A_PROPERTY)}."
    elif query.property is not None and query.property not in definition.breakdown_properties:
        others.append(definition.not_a_breakdown("property"))
    if faults or others:
        raise bad_parameters(faults, *others)
    return Wanted(
        step=query.step,
        option=query.option,
        outcome=query.outcome,
        diagnostic=None if query.diagnostic is None else diagnostics.index(query.diagnostic) + 1,
        quality=query.quality,
        property=0 if query.property is None else definition.breakdown_properties.index(query.property) + 1,
    )


def outcome_of(definition: Definition, reached: int, window_end_ms: int | None, evaluated_at_ms: int) -> Outcome:
    """Source: semantics, "Outcome"."""
    if reached == len(definition.steps):
        return Outcome.COMPLETED
    return Outcome.PENDING if window_end_ms is None or evaluated_at_ms <= window_end_ms else Outcome.DROPPED_OFF


def _record(inquiry: Inquiry, record: Mapping[str, Any], names: Mapping[int, str]) -> UnitRecord:
    definition = inquiry.definition
    window_end_ms = None if definition.window_s is None else record["window_end"]
    outcome = outcome_of(definition, record["reached"], window_end_ms, inquiry.question.evaluated_at_ms)
    properties = definition.breakdown_properties
    return UnitRecord.model_validate(
        {
            "unit": names.get(record["unit"], ""),
            "entryAt": iso(record["entry_ts"]),
            "windowEndsAt": iso_or_none(window_end_ms),
            "reached": record["reached"],
            "outcome": outcome,
            "completedAt": iso(record["done_ts"]) if outcome is Outcome.COMPLETED else None,
            "cohort": dict(zip(properties, map(untagged, record["texts"]), strict=True)),
            "sequenceSkips": record["skips"],
            "unorderedTies": record["ties"],
            "invalidSequenceValues": record["invalid"],
            "tiedEntry": bool(record["tied"]),
            "conflictingEntryValues": [name for place, name in enumerate(properties) if record["conflicts"] >> place & 1],
            "severalVisitors": bool(record["several"]),
        }
    )


def _asked(funnel_id: str, query: UnitsQuery) -> int:
    """A number for what is asked, apart from the place in the list: a cursor goes with the question that it came from."""
    said = query.model_dump_json(exclude={"cursor", "page_size"})
    return int.from_bytes(blake2b(f"{funnel_id} {said}".encode(), digest_size=4).digest(), "big")


def _cursor(inquiry: Inquiry, asked: int, last: Mapping[str, Any]) -> str:
    position = [asked, inquiry.question.evaluated_at_ms, last["entry_ts"], last["unit"]]
    return urlsafe_b64encode(json.encode(position)).decode().rstrip("=")


def _position(cursor: str, asked: int, now_ms: int) -> tuple[int, Position]:
    """When the first page was evaluated, and where this one begins."""
    try:
        told, evaluated_at_ms, entry_ms, unit = json.decode(
            urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=tuple[int, int, int, int]
        )
    except (ValueError, DecodeError):
        told = evaluated_at_ms = entry_ms = unit = -1
    if told != asked or not (0 <= entry_ms <= evaluated_at_ms <= now_ms and 0 <= unit < 2**64):
        raise bad_parameters({"cursor": "Send nextCursor of the page before as it came, with the same other parameters."})
    return evaluated_at_ms, Position(entry_ms, unit)
