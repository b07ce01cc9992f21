"""Bodies with read-only fields, such as a record that a client read and sends back."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, JsonValue
from pydantic_core import to_json

from penstock.base.errors import Conflict, Fault, Invalid, Malformed
from penstock.base.value_budget import FORM
from penstock.http.bodies import (
    parse_json,
)
from penstock.http.schema import Input, Record

C = TypeVar("C", bound=Input)


@dataclass(frozen=True, slots=True)
class ReadOnlyFields:
    """Read-only fields of a body, by their wire names."""

    values: Mapping[str, JsonValue] = field(default_factory=dict)

    def check(self, stored: Record, *, computed: Collection[str] = ()) -> None:
        """Check that the sent values equal the stored values.

        Raises `Invalid` with a fault for every field that differs, and `Conflict` if the sent
        revision is older, because someone has changed the record since it was read. computed: wire
        names of fields that are computed for each response; their sent values are ignored.
        """
        current = stored.model_dump(mode="json", by_alias=True)
        revision = self.values.get("revision")
        if type(revision) is int and 1 <= revision < current["revision"]:
            raise _stale_revision(revision, current["revision"])
        faults = [
            Fault(
                name,
                "read_only",
                "Cannot be changed; leave it out, or send the stored value: "
                f"{to_json(current[name]).decode()}.",
            )
            for name, value in self.values.items()
            if name not in computed and not _is_same(value, current[name])
        ]
        if faults:
            raise Invalid(faults)


def split_read_only(
    body: bytes, model: type[Input], record: type[BaseModel]
) -> tuple[bytes, ReadOnlyFields]:
    """Split a body into the fields that a client may change and the read-only fields.

    model: fields that a client may change. record: the API's response. A body that is not a JSON
    object is returned unchanged, for the model to reject.
    """
    try:
        content = parse_json(body, FORM)
    except Malformed:
        return body, ReadOnlyFields()
    if not isinstance(content, dict):
        return body, ReadOnlyFields()
    names = _wire_names(record) - _wire_names(model)
    values = {name: value for name, value in content.items() if name in names}
    if not values:
        return body, ReadOnlyFields()
    return to_json({name: content[name] for name in content.keys() - names}), ReadOnlyFields(values)


def check_revision(sent: int | None, current: int) -> None:
    """Raise `Conflict` unless the client sent the current revision or none."""
    if sent is not None and sent != current:
        raise _stale_revision(sent, current)


def _stale_revision(sent: int, current: int) -> Conflict:
    return Conflict(
        f"The record has revision {current} by now, and the request is for revision {sent}. Read "
        "the record again and repeat the change.",
        code="stale_revision",
    )


def _wire_names(model: type[BaseModel]) -> set[str]:
    return {info.alias or name for name, info in model.model_fields.items()}


def _is_same(sent: JsonValue, stored: JsonValue) -> bool:
    """Whether two JSON values are equal: `20` equals `20.0`, but `1` does not equal `true`."""
    return sent == stored and isinstance(sent, bool) == isinstance(stored, bool)
