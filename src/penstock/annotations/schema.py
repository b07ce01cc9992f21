"""Wire types for annotations."""

from datetime import date
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.annotations.model import Annotation
from penstock.base.patterns import Pattern
from penstock.http.period import AS_TIME, read_time_ms
from penstock.http.schema import Input, Iso, Name, Omittable, Record, RuleBroken

_ID = Pattern(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,99}")


def _read_id(value: str) -> str:
    if not _ID.fullmatch(value):
        raise RuleBroken(
            "not_an_id",
            "Must have 1 to 100 letters, digits, dots, hyphens, underscores and tildes, and begin "
            "with a letter or digit, such as release-4.2.",
        )
    return value


def _read_day(value: str) -> str:
    try:
        day = date.fromisoformat(value)
    except ValueError:
        day = None
    if day is None or day.isoformat() != value or not 1970 <= day.year <= 2299:
        raise RuleBroken("not_a_date", "Must be a date such as 2026-11-20, from 1970 to 2299.")
    return value


class AnnotationChange(Input):
    """Changes to an annotation. Omitted fields keep their values."""

    text: Omittable[Name] = None
    at: Annotated[int, BeforeValidator(read_time_ms), AS_TIME] | None = None
    """The time, instead of a day."""
    day: Annotated[str, AfterValidator(_read_day), Field(json_schema_extra={"format": "date"})] | (
        None
    ) = None
    """A whole day, in the time zone of whoever reads a report."""
    funnel_id: Annotated[str, Field(max_length=200)] | None = None
    """The only funnel whose reports show the annotation; null for all."""
    website_id: Annotated[str, Field(max_length=200)] | None = None
    """The only website whose reports show the annotation; null for all."""

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if self.at is not None and self.day is not None:
            raise RuleBroken("not_allowed", "Send at or day, not both.", at="day")
        return self

    @property
    def sent(self) -> dict[str, Any]:
        """The values that were sent. Null stands for all funnels or websites; other nulls are left
        out.
        """
        values = self.model_dump(exclude_unset=True)
        absent = {name for name in ("id", "at", "day") if values.get(name) is None}
        return {name: value for name, value in values.items() if name not in absent}


class NewAnnotation(AnnotationChange):
    """A new annotation, at the time of the request if neither `at` nor `day` is sent."""

    text: Name
    id: Annotated[str, AfterValidator(_read_id)] | None = None
    """An ID of your choice, such as the version of a release, which makes repeats safe."""


class AnnotationRecord(Record):
    id: str
    text: str
    at: Iso | None
    """The time; null for a day."""
    day: str | None
    funnel_id: str | None
    website_id: str | None
    created_at: Iso
    updated_at: Iso

    @classmethod
    def of(cls, annotation: Annotation) -> Self:
        at_ms = annotation.at_ms if annotation.day is None else None
        return cls.from_object(annotation, at=at_ms)
