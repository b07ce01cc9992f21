"""Quick validation of plain items, in a single step implemented in C. Most items are plain.

A plain item has known fields of the right types, strings clearly within the limits, and simple
properties. Nothing is rejected here: an item that is not plain goes through the full validation,
which finds any faults. For a plain item, both validations return the same fields; a test compares
them with random items.
"""

from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import DecodeError, Struct, ValidationError, convert, defstruct, json
from pydantic import BaseModel

from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.base.unicode_text import is_composed
from penstock.events.fields import EventValidationContext, Plain
from penstock.http.schema import RuleBroken

_NULL, _NUL, _RESERVED = b"null", b"\\u0000", b'"$'
"""JSON texts of null, of NUL, which strings must not contain, and of the start of a reserved
property's name.
"""


def plain_item(
    raw: Any, canonical: bytes, model: type[BaseModel], context: EventValidationContext
) -> Any | None:
    """Return an object with the model's fields for a plain item; None for any other item.

    canonical: the item's JSON.
    """
    if _NUL in canonical or _RESERVED in canonical or not is_composed(canonical):
        return None
    reader = _reader(model)
    try:
        return _converted(convert(raw, reader.struct), reader, context)
    except (ValidationError, RuleBroken):
        return None


def plain_text(
    text: bytes, model: type[BaseModel], context: EventValidationContext
) -> tuple[Any, bytes] | None:
    """Like `plain_item`, but for the JSON text of an item, which is not parsed beforehand.

    Also returns the item's JSON with sorted keys, the same as `canonical_json`.
    """
    reader = _reader(model)
    try:
        item = reader.decoder.decode(text)
        canonical = json.encode(item, order="sorted")
        if (
            _NUL in canonical
            or _RESERVED in canonical
            or len(canonical) > MAX_EVENT_BYTES
            or not is_composed(canonical)
            # The struct does not distinguish a null field from a missing field.
            or (_NULL in text and None in json.decode(text).values())
        ):
            return None
        return _converted(item, reader, context), canonical
    except (DecodeError, RuleBroken, UnicodeError, RecursionError):
        return None


class _Reader(NamedTuple):
    """Types and functions that read the items of one model.

    struct: the model's fields for msgspec. reads: converters for some fields. check: the model's
    own check.
    """

    struct: type[Struct]
    decoder: json.Decoder[Any]
    reads: tuple[Any, ...]
    check: Any


def _converted(item: Any, reader: _Reader, context: EventValidationContext) -> Any:
    """Convert an item's fields in place. Raises `RuleBroken` if it needs the full validation."""
    for name, read in reader.reads:
        if (value := getattr(item, name)) is not None:
            setattr(item, name, read(value, context))
    if reader.check is not None:
        reader.check(item, context)
    return item


@lru_cache(maxsize=100)
def _reader(model: type[BaseModel]) -> _Reader:
    fields: list[Any] = []
    reads = []
    hints = get_type_hints(model, include_extras=True)
    for name, info in model.model_fields.items():
        hint, read = _plain_type(hints[name])
        fields.append((name, hint) if info.is_required() else (name, hint | None, None))
        if read is not None:
            reads.append((name, read))
    aliases = {name: info.alias or name for name, info in model.model_fields.items()}
    struct = defstruct(
        f"Plain{model.__name__}",
        fields,
        rename=aliases,
        forbid_unknown_fields=True,
        omit_defaults=True,
        kw_only=True,
        gc=False,
    )
    check = getattr(model, "check_between_fields", None)
    return _Reader(struct, json.Decoder(struct), tuple(reads), check)


def _plain_type(hint: Any) -> tuple[Any, Any]:
    """Return the msgspec type for a field's type, and the function that converts its value."""
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        # The last entry wins, because it may narrow earlier entries.
        for part in reversed(metadata):
            if isinstance(part, Plain):
                return part.plain_type, part.read
        return _plain_type(inner)
    if get_origin(hint) in (Union, UnionType):
        [inner] = [part for part in get_args(hint) if part is not NoneType]
        return _plain_type(inner)
    assert get_origin(hint) is Literal
    return hint, None
