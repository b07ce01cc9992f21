"""Records that are read from rows and plain types by the names of their fields."""

from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import Field, ValidationError
from sqlalchemy import create_engine, text

from penstock.http.schema import Iso, Record


class ShopRecord(Record):
    name: str
    opened_at: Iso


class VisitRecord(Record):
    id: str
    created_at: Iso
    left_at: Iso | None
    shop: ShopRecord | None = None
    notes: Annotated[tuple[ShopRecord, ...], Field(description="Other shops.")] = ()


@dataclass(frozen=True, slots=True)
class Shop:
    name: str
    opened_at_ms: int


@dataclass(frozen=True, slots=True)
class Visit:
    id: str
    created_at_ms: int
    left_at_ms: int | None
    shop: Shop
    notes: tuple[Shop, ...]


CAFE = Shop("Café", 1_500)
CAFE_JSON = {"name": "Café", "openedAt": "1970-01-01T00:00:01.500Z"}


def test_a_record_is_read_from_a_plain_type_with_all_its_parts():
    record = VisitRecord.from_object(Visit("v1", 0, None, CAFE, (CAFE, CAFE)))
    assert record.model_dump(mode="json") == {
        "id": "v1",
        "createdAt": "1970-01-01T00:00:00.000Z",
        "leftAt": None,
        "shop": CAFE_JSON,
        "notes": [CAFE_JSON, CAFE_JSON],
    }


def test_a_record_is_read_from_a_row_and_fields_without_a_column_have_their_default():
    with create_engine("sqlite://").connect() as db:
        row = db.execute(
            text("SELECT 'v1' AS id, 1000 AS created_at, NULL AS left_at, 2 AS unused")
        ).one()
    record = VisitRecord.from_object(row, shop=CAFE)
    assert (record.id, record.created_at, record.left_at) == (
        "v1",
        "1970-01-01T00:00:01.000Z",
        None,
    )
    assert (record.shop, record.notes) == (ShopRecord(name="Café", opened_at=1_500), ())


def test_other_values_replace_those_of_the_object():
    record = VisitRecord.from_object(Visit("v1", 0, 1, CAFE, ()), id="v2", left_at=None)
    assert (record.id, record.left_at) == ("v2", None)


def test_a_record_of_a_record_keeps_its_times():
    first = ShopRecord.from_object(CAFE)
    assert ShopRecord.from_object(first) == first
    assert VisitRecord(id="v1", created_at=0, left_at=0, shop=first).shop is first


@pytest.mark.parametrize("source", [object(), None, "text", 5])
def test_an_object_without_the_fields_is_no_record(source):
    with pytest.raises(ValidationError):
        ShopRecord.from_object(source)
    with pytest.raises(ValidationError):
        VisitRecord(id="v1", created_at=0, left_at=0, shop=source or "text")
