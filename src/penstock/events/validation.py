"""Validates one item: its shape, the limits of its fields, and the rules between fields."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeVar, cast

from msgspec import json
from pydantic import BaseModel, ValidationError

from penstock.base.errors import MAX_FAULTS, Fault, Invalid
from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.base.value_budget import EVENT, count_values
from penstock.events.fields import EventValidationContext
from penstock.events.plain_items import plain_item
from penstock.http.schema import faults_of

M = TypeVar("M", bound=BaseModel)
RawItem = Mapping[str, Any]
"""An item as sent: JSON values, not validated."""
Rule = Callable[[RawItem], Iterable[Fault]]
"""A rule between fields. It gets the raw item, so it works even if some of the fields are
invalid.
"""


def validate(
    raw: Any,
    model: type[M],
    rules: Iterable[Rule],
    context: EventValidationContext,
    canonical: bytes = b"",
) -> M:
    """Return the item as a validated model. Raises `Invalid` with every fault.

    canonical: the item's JSON, if the item may be plain. For a plain item, the result is another
    object with the same fields as the model.
    """
    more_faults = 0
    if isinstance(raw, dict) and len(raw) > MAX_FAULTS:
        raw, more_faults = _without_surplus(raw, _wire_names(model))
    rule_faults = [fault for rule in rules for fault in rule(raw)] if isinstance(raw, dict) else []
    if canonical and not rule_faults and (item := plain_item(raw, canonical, model, context)):
        return cast("M", item)
    return _validate_fully(raw, model, rule_faults, more_faults, context)


def _validate_fully(
    raw: Any,
    model: type[M],
    rule_faults: Sequence[Fault],
    more_faults: int,
    context: EventValidationContext,
) -> M:
    try:
        item = model.model_validate(raw, context=context)
    except ValidationError as error:
        # If a rule rejects an unknown field, its message is more specific than "there is no such
        # field".
        explained = {fault.field for fault in rule_faults}
        field_faults = [
            fault
            for fault in faults_of(error, model=model)
            if fault.code != "unknown_field" or fault.field not in explained
        ]
        raise Invalid([*field_faults, *rule_faults], more_faults=more_faults) from None
    if rule_faults:
        raise Invalid(rule_faults)
    return item


@cache
def _wire_names(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(info.alias or name for name, info in model.model_fields.items())


def _without_surplus(raw: RawItem, names: Collection[str]) -> tuple[dict[str, Any], int]:
    """Limit the item to MAX_FAULTS unknown fields. Returns the item and the number of omitted
    fields.

    Each unknown field is a fault, and collecting faults takes much more memory than the item.
    """
    unknown = islice((name for name in raw if name not in names), MAX_FAULTS, None)
    surplus = set(unknown)
    return {name: value for name, value in raw.items() if name not in surplus}, len(surplus)


def canonical_json(raw: Any) -> bytes:
    """Return an item's JSON with sorted keys. Raises `Invalid` if it is too large or has too many
    values.

    Call this before `validate`, so that no work is wasted on an oversized event.
    """
    canonical = json.encode(raw, order="sorted")
    if len(canonical) > MAX_EVENT_BYTES:
        message = (
            f"An event may have at most {MAX_EVENT_BYTES:,} bytes of JSON; "
            f"this one has {len(canonical):,}."
        )
        raise Invalid([Fault("", "too_large", message)])
    if not EVENT.has_room_for(canonical):
        raise Invalid([EVENT.fault(_largest_field(raw))])
    return canonical


def _largest_field(raw: Any) -> str:
    """Return the name of the field with the most values."""
    return max(raw, key=lambda name: count_values(json.encode(raw[name])), default="")
