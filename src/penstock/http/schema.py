"""Base classes for wire types, and their validation errors.

Inputs are strict: no coercion, no unknown fields. Pydantic reports all faults of an input at once,
as the contract requires.
"""

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Self, TypeVar, cast, get_args

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from penstock.base.clock import iso
from penstock.base.errors import Fault
from penstock.base.hidden_text import has_hidden_text
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.base.patterns import is_integer
from penstock.base.rates import round_rate
from penstock.base.wording import listed

T = TypeVar("T")

_CODES: Mapping[str, str] = {
    "missing": "required",
    "extra_forbidden": "unknown_field",
    "string_type": "wrong_type",
    "int_type": "wrong_type",
    "float_type": "wrong_type",
    "bool_type": "wrong_type",
    "list_type": "wrong_type",
    "dict_type": "wrong_type",
    "model_type": "wrong_type",
    "model_attributes_type": "wrong_type",
    "literal_error": "not_one_of",
    "enum": "not_one_of",
    "string_too_short": "too_short",
    "string_too_long": "too_long",
    "too_short": "too_few",
    "too_long": "too_many",
    "int_parsing": "wrong_type",
    "int_from_float": "wrong_type",
    "float_parsing": "wrong_type",
    "bool_parsing": "wrong_type",
    "finite_number": "not_finite",
}
_MAX_LISTED_CHOICES = 10
"""Maximum number of choices that a message lists."""
_MAX_COMPARED_CHARS = 50
_MESSAGES: Mapping[str, str] = {
    "missing": "This field is required.",
    "extra_forbidden": "There is no such field. Check its spelling, or leave it out.",
    "model_type": "Must be an object.",
    "model_attributes_type": "Must be an object.",
    "dict_type": "Must be an object.",
    "list_type": "Must be a list.",
    "string_type": "Must be a string.",
    "int_type": "Must be an integer.",
    "int_parsing": "Must be an integer.",
    "int_from_float": "Must be an integer.",
    "float_type": "Must be a number.",
    "float_parsing": "Must be a number.",
    "finite_number": "Must be a finite number.",
    "bool_type": "Must be true or false.",
    "bool_parsing": "Must be true or false.",
    "literal_error": "Must be {expected}.",
    "enum": "Must be {expected}.",
    "greater_than_equal": "Must be at least {ge}.",
    "less_than_equal": "Must be at most {le}.",
    "string_too_long": "Must have at most {max_length} characters.",
    "string_too_short": "Must not be empty.",
    "too_short": "Must not be empty.",
    "too_long": "Must have at most {max_length} entries.",
}


class Input(BaseModel):
    """A request body or a part of it: camelCase, strict, no unknown fields."""

    model_config = ConfigDict(
        defer_build=True,
        use_attribute_docstrings=True,
        alias_generator=to_camel,
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _read_null_as_absent(cls, value: Any) -> Any:
        """Drop null values of fields that are optional but not nullable. For these fields, null
        means "not sent".
        """
        if not isinstance(value, dict) or None not in value.values():
            return value
        omittable = {
            field.alias or name
            for name, field in cls.model_fields.items()
            if not field.is_required() and type(None) not in get_args(field.annotation)
        }
        absent = {name for name, item in value.items() if item is None and name in omittable}
        return {name: item for name, item in value.items() if name not in absent}


class Query(BaseModel):
    """The query parameters of a route: camelCase, converted from text, no unknown parameters.

    REFUSED: why the route does not have parameters that others have, by name.
    """

    REFUSED: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(
        defer_build=True,
        use_attribute_docstrings=True,
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _require_digits(cls, value: Any, info: ValidationInfo) -> Any:
        """Require plain digits. Pydantic would also accept `1_0`, `+1` and `1.0` as integers."""
        is_number = cls.model_fields[info.field_name or ""].annotation in (int, int | None)
        if is_number and isinstance(value, str) and not is_integer(value):
            raise RuleBroken("wrong_type", _MESSAGES["int_type"])
        return value


class RevisionQuery(Query):
    """Query parameters of a deletion."""

    revision: Annotated[int | None, Field(ge=1)] = None
    """Delete only this revision. If the record has another one by now, the response is 409."""


def _names_in_objects(name: str) -> AliasChoices:
    return AliasChoices(to_camel(name), name, f"{name}_ms")


class Record(BaseModel):
    """A response or a part of it: camelCase on the wire, snake_case in code.

    Any object with the record's fields as attributes can become a record, or a part of one: a row
    of a query, or a plain type. The attribute for the time `created_at` may be `created_at_ms`.
    """

    model_config = ConfigDict(
        defer_build=True,
        use_attribute_docstrings=True,
        alias_generator=AliasGenerator(
            alias=to_camel, validation_alias=_names_in_objects, serialization_alias=to_camel
        ),
        validate_by_name=True,
        serialize_by_alias=True,
        from_attributes=True,
        frozen=True,
    )

    @classmethod
    def from_object(cls, source: object, **others: Any) -> Self:
        """Build the record from the attributes of an object.

        others: values of fields that the object does not have, or has in another form.
        """
        fields = cls.model_fields.keys() - others.keys()
        names = [name for field in fields for name in (field, f"{field}_ms")]
        values = {name: getattr(source, name) for name in names if hasattr(source, name)}
        return cls.model_validate(values | others)


def _iso_text(value: Any) -> Any:
    return iso(value) if isinstance(value, int) else value


Iso = Annotated[str, BeforeValidator(_iso_text)]
"""A time in a record: milliseconds since 1970 become ISO 8601 text, as `iso` writes it."""

Rate = Annotated[float, PlainSerializer(round_rate, return_type=float)]
"""A rate in a record, or a difference of two: rounded only in the response."""


class RuleBroken(ValueError):
    """Raised in a pydantic validator if the value breaks a rule. It has a stable code.

    at: path of the faulty field, relative to the validated value.
    """

    def __init__(self, code: str, message: str, at: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.at = code, message, at


def has_controls(text: str) -> bool:
    """Whether a text contains control characters. Spaces of every kind are not among them."""
    return any(unicodedata.category(character) == "Cc" for character in text)


def without_controls(value: str) -> str:
    """Validator: reject control characters."""
    if has_controls(value):
        raise RuleBroken(
            "control_character", "Must not contain control characters such as NUL or line breaks."
        )
    return value


def without_hidden_text(value: str) -> str:
    """Validator: reject characters that people cannot see, so that names that differ look
    different.
    """
    if has_hidden_text(value):
        raise RuleBroken(
            "hidden_character",
            "Must not contain invisible characters or characters that change the text direction. "
            "Type it again instead of pasting it.",
        )
    return value


def _reject_blank(value: str) -> str:
    if not value.strip():
        raise RuleBroken("too_short", "Enter a name.")
    return value


Line = Annotated[str, Field(max_length=200), AfterValidator(without_controls)]
"""A string of up to 200 characters on one line, stored as sent."""

Label = Annotated[
    Line, AfterValidator(_reject_blank), Field(json_schema_extra={"minLength": 1, "pattern": r"\S"})
]
"""A name from elsewhere, such as that of a file: 1 to 200 characters on one line."""

Name = Annotated[Label, AfterValidator(without_hidden_text)]
"""A name that people choose: like a `Label`, but with visible characters only, stored as sent."""


def _drop_default(schema: JsonDict) -> None:
    schema.pop("default", None)
    if "anyOf" not in schema:
        return
    kinds = cast("list[JsonDict]", schema.pop("anyOf"))
    values = [kind for kind in kinds if kind != {"type": "null"}]
    schema.update(values[0] if len(values) == 1 else {"anyOf": list(values)})


def _not_null(value: T | None) -> T | None:
    if value is None:
        raise RuleBroken("not_null", "Must not be null. Leave the field out to keep its value.")
    return value


OMITTABLE = Field(json_schema_extra=_drop_default)
"""A field that may be left out, but has no default that a client could send."""

Omittable = Annotated[T | None, AfterValidator(_not_null), OMITTABLE]
"""A field of a change. If it is left out, the stored value stays. Null is not allowed."""


class PageQuery(Query):
    """Query parameters for a list."""

    page: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    """Page number, from 1."""
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 20
    """Records per page, 1 to 100."""

    @property
    def pagination(self) -> Page:
        return Page(number=self.page, size=self.page_size)


class RecordsQuery(PageQuery):
    """Query parameters for a list of records that belong to websites."""

    website_id: str | None = None
    """Only records of this website or app."""


def without_nul(text: str) -> str:
    """Validator: reject NUL, which PostgreSQL cannot store."""
    if "\0" in text:
        raise RuleBroken("nul_character", "Must not contain the NUL character.")
    return text


class SearchQuery(PageQuery):
    """Query parameters for a list of records with names."""

    search: Annotated[str, Field(max_length=200), AfterValidator(without_nul)] = ""
    """Only records whose name contains this text, regardless of case."""


class RulesBroken(ValueError):
    """Raised in a pydantic validator if the value breaks several rules.

    faults: their fields are paths relative to the validated value.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{len(faults)} rules are broken")
        self.faults = tuple(faults)


_SHOWN_NAME_CHARS = 200


def field_path(location: Iterable[str | int], max_name_chars: int = _SHOWN_NAME_CHARS) -> str:
    """Format a location as a path: `steps[2].value` for `("steps", 2, "value")`. Cuts longer
    names.
    """
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            name = part if len(part) <= max_name_chars else f"{part[:max_name_chars]}…"
            path += f".{name}" if path else name
    return path


_GUESSES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("time", "ts", "occurredAt", "date"), ("timestamp",)),
    **dict.fromkeys(("messageId", "idempotencyKey", "insertId"), ("eventId", "dedupeKey")),
    **dict.fromkeys(("distinctId", "anonymousId"), ("visitorId",)),
    **dict.fromkeys(("revenue", "price"), ("amount",)),
    "window": ("conversionWindow",),
    "dedupeKey": ("eventId",),
    "eventId": ("dedupeKey",),
    "event": ("name",),
    "eventName": ("event", "name"),
    "props": ("properties",),
    "sequencePropertyField": ("sequenceProperty",),
    "breakdown": ("breakdownProperties",),
    "key": ("property",),
    "op": ("operator",),
}
"""Wrong field names that integrators use, and the fields that they may have meant."""


def _hint(name: str, known: Collection[str]) -> str:
    """Suggest the known field that was probably meant by an unknown field. Returns an empty text if
    no field is likely.
    """
    candidates = (*_GUESSES.get(name, ()), to_camel(name), *_GUESSES.get(to_camel(name), ()))
    meant = next((field for field in candidates if field in known), None)
    return f" Did you mean {meant}?" if meant else ""


def _fields_at(model: type[BaseModel] | None, location: Sequence[str | int]) -> set[str]:
    """Return the wire names of the fields of the object at a location in a model. Returns nothing
    if the object is unknown.
    """
    for part in location:
        if model is None or isinstance(part, int):
            continue
        names = {field.alias or name: field for name, field in model.model_fields.items()}
        model = _model_of(names[part].annotation) if part in names else None
    return {field.alias or name for name, field in model.model_fields.items()} if model else set()


def _model_of(hint: Any) -> type[BaseModel] | None:
    """Return the model inside a type such as `list[Model] | None`."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return hint
    return next(filter(None, map(_model_of, get_args(hint))), None)


def faults_of(
    error: ValidationError, prefix: str = "", model: type[BaseModel] | None = None
) -> list[Fault]:
    """Return all faults of a validation error.

    prefix: path of the validated value in the whole input. model: type of the validated value; if
    given, unknown fields get a hint.
    """
    faults = []
    for item in error.errors(include_url=False):
        kind, path = item["type"], field_path(item["loc"])
        cause: Any = item.get("ctx", {}).get("error")
        if isinstance(cause, RulesBroken):
            faults += [
                Fault(join_path(join_path(prefix, path), fault.field), fault.code, fault.message)
                for fault in cause.faults
            ]
            continue
        code, message = (
            _CODES.get(kind, kind),
            _message(kind, item.get("ctx", {}), item["input"]) or item["msg"].rstrip(".") + ".",
        )
        if isinstance(cause, RuleBroken):
            code, message = cause.code, cause.message
            path = join_path(path, cause.at)
        elif kind == "extra_forbidden":
            message += _hint(str(item["loc"][-1]), _fields_at(model, item["loc"][:-1]))
        faults.append(Fault(join_path(prefix, path), code, message))
    return faults


def _message(kind: str, context: Mapping[str, Any], value: object) -> str | None:
    """Return Penstock's message for a kind of pydantic error; None to use pydantic's message."""
    template = _MESSAGES.get(kind)
    choices = context["expected"].split("'")[1::2] if kind == "enum" else ()
    if len(choices) > _MAX_LISTED_CHOICES:
        return _closest(value if isinstance(value, str) else "", choices)
    shown = {
        name: f"{each:,}" if isinstance(each, int | float) else each  # a day is a text
        for name, each in context.items()
    }
    return template.format_map(shown) if template else None


def _closest(value: str, choices: Sequence[str]) -> str:
    """Return the message for a value that is none of many choices."""
    likely = get_close_matches(value[:_MAX_COMPARED_CHARS], choices)
    advice = (
        f"Did you mean {listed(likely, 'or')}?"
        if likely
        else f"Use a value such as {listed(choices[:3], 'or')}."
    )
    return f"There is no such value. {advice} The API reference lists all {len(choices)}."


def join_path(first: str, second: str) -> str:
    """Join two field paths, either of which may be empty."""
    if not first or not second or second.startswith("["):
        return first + second
    return f"{first}.{second}"
