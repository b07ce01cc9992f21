"""Checking one sent item: its shape, its fields' limits, and the rules between fields; every fault at once."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import json
from pydantic import BaseModel, ValidationError

from penstock.base.errors import Fault, Invalid
from penstock.events.fields import Bounds
from penstock.events.model import body_hash
from penstock.http.schema import faults_of

M = TypeVar("M", bound=BaseModel)
Sent = Mapping[str, Any]
Rule = Callable[[Sent], Iterable[Fault]]
"""A rule between fields, over the item as sent: it also speaks when a field by itself is wrong."""


def checked(raw: Any, model: type[M], rules: Iterable[Rule], bounds: Bounds) -> M:
    """The item as a validated model; `Invalid` with every fault."""
    faults = [fault for rule in rules for fault in rule(raw)] if isinstance(raw, dict) else []
    try:
        sent = model.model_validate(raw, context=bounds)
    except ValidationError as error:
        known = {fault.field for fault in faults}  # of which a rule says more than that there is no such field
        raise Invalid([*(one for one in faults_of(error) if one.code != "unknown_field" or one.field not in known), *faults]) from None
    if faults:
        raise Invalid(faults)
    return sent


def sized(raw: Mapping[str, Any], bounds: Bounds) -> bytes:
    """The hash of a validated item; `Invalid` when it is too large."""
    canonical = json.encode(raw, order="sorted")
    limit = bounds.limits.max_event_bytes
    if len(canonical) > limit:
        raise Invalid([Fault("", "too_large", f"An event may have {limit:,} bytes of JSON; this one has {len(canonical):,}.")])
    return body_hash(canonical)
