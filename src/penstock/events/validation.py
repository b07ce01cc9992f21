"""Validation of one item: its shape, the limits of its fields, and the rules between fields."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import json
from pydantic import BaseModel, ValidationError

from penstock.base.errors import Fault, Invalid
from penstock.events.fields import EventValidationContext
from penstock.events.model import body_hash
from penstock.http.schema import faults_of

M = TypeVar("M", bound=BaseModel)
RawItem = Mapping[str, Any]
"""An item as sent: JSON values, not validated."""
Rule = Callable[[RawItem], Iterable[Fault]]
"""A rule between fields. It sees the raw item, so it also speaks when a single field is wrong."""


def validate(raw: Any, model: type[M], rules: Iterable[Rule], context: EventValidationContext) -> M:
    """The item as a validated model; `Invalid` with every fault."""
    rule_faults = [fault for rule in rules for fault in rule(raw)] if isinstance(raw, dict) else []
    try:
        item = model.model_validate(raw, context=context)
    except ValidationError as error:
        # Where a rule names an unknown field, it says more than "there is no such field".
        explained = {fault.field for fault in rule_faults}
        field_faults = [
            fault
            for fault in faults_of(error)
            if fault.code != "unknown_field" or fault.field not in explained
        ]
        raise Invalid([*field_faults, *rule_faults]) from None
    if rule_faults:
        raise Invalid(rule_faults)
    return item


def canonical_hash(raw: Mapping[str, Any], context: EventValidationContext) -> bytes:
    """Hash of a validated item's JSON with sorted keys; `Invalid` when that JSON is too large."""
    canonical = json.encode(raw, order="sorted")
    limit = context.limits.max_event_bytes
    if len(canonical) > limit:
        message = (
            f"An event may have at most {limit:,} bytes of JSON; this one has {len(canonical):,}."
        )
        raise Invalid([Fault("", "too_large", message)])
    return body_hash(canonical)
