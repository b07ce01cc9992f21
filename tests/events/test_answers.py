"""Answers to events are the documents that the API describes."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from penstock.base.errors import Fault
from penstock.base.ids import EventId, VisitorId
from penstock.events.answers import batch_json, receipt_json
from penstock.events.batch import ItemResult
from penstock.events.model import Receipt, Status
from penstock.events.schema import BatchRecord, EventRecord
from penstock.identity.model import Notice

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
RECEIPTS = st.builds(
    Receipt,
    st.sampled_from(Status),
    TEXTS.map(EventId),
    st.none() | TEXTS.map(VisitorId),
    st.lists(st.builds(Notice, TEXTS, TEXTS), max_size=2).map(tuple),
)
REJECTED = st.builds(
    ItemResult,
    st.none(),
    st.lists(st.builds(Fault, TEXTS, TEXTS, TEXTS), min_size=1, max_size=3).map(tuple),
    st.integers(0, 3),
)


@given(RECEIPTS)
def test_a_receipt_is_the_described_document(receipt: Receipt) -> None:
    document = json.decode(receipt_json(receipt))
    assert json.decode(EventRecord.model_validate(document).model_dump_json()) == document


@given(st.lists(RECEIPTS.map(ItemResult) | REJECTED, max_size=6))
def test_a_batch_is_the_described_document(results: list[ItemResult]) -> None:
    document = json.decode(batch_json(results))
    assert json.decode(BatchRecord.model_validate(document).model_dump_json()) == document
    assert [item["index"] for item in document["results"]] == list(range(len(results)))
    accepted, duplicates, rejected = (
        sum(item["status"] == status for item in document["results"])
        for status in ("accepted", "duplicate", "rejected")
    )
    assert (document["accepted"], document["duplicates"], document["rejected"]) == (
        accepted, duplicates, rejected,
    )  # fmt: skip
