"""Wire types for receipts."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import MISSING

from penstock.base.scalar import Scalar
from penstock.funnels.definitions.schema import SavedDefinition
from penstock.funnels.queries.schema import PeriodRecord
from penstock.funnels.saved_cohorts.schema import SavedParameters
from penstock.http.schema import Input, Iso, Name, Omittable, PageQuery, Record


class NewReceipt(Input):
    """A number to keep."""

    funnel_id: str
    name: Omittable[Name] = None
    """Name of the receipt; default: the name of the funnel."""
    parameters: SavedParameters
    """The query parameters of the report's page, as texts, such as {"period": "30d", "timezone":
    "Europe/Berlin"}. A relative period becomes its days of now.
    """


class ReceiptsQuery(PageQuery):
    """Query parameters for the list of receipts."""

    funnel_id: str | None = None
    """Only receipts on this funnel."""


class ReceiptStepRecord(Record):
    """The units of a step. Receipts of form 1 have only `count` and `settled`."""

    name: str
    count: int
    settled: int
    pending: int | MISSING = MISSING
    dropped_off: int | MISSING = MISSING
    excluded: int | MISSING = MISSING
    part: int | MISSING = MISSING
    """Units of the report's rate that reached the step. Its rate from the start is part / whole,
    and that from the step before is part / part of that step.
    """
    row_count: int | MISSING = MISSING
    """Units that did this step itself. Present only if the order is any."""


class ReceiptRateRecord(Record):
    """A rate, which is part / whole, and when it was reached."""

    entered: int
    completed: int
    pending: int
    dropped_off: int
    excluded: int
    settled: int
    early_completions: int
    part: int
    whole: int
    of: str
    """The units of the whole: `settled` or, of all that are not excluded, `entered`."""
    is_so_far: bool
    """Whether the rate may still rise, because no unit had settled yet."""
    median_completion_ms: int | MISSING | None = MISSING
    """Not in receipts of form 1."""

    @property
    def rate(self) -> float | None:
        return self.part / self.whole if self.whole else None


class ReceiptCohortRecord(ReceiptRateRecord):
    value: str
    """Keyed hash of the values of the breakdown. The values themselves are not kept, because they
    may be deleted later.
    """
    values: dict[str, Scalar | None] | MISSING = MISSING
    """The values by property, as they are stored now. Not in the signed figures."""
    steps: list[int]
    """`part` of each step."""


class ReceiptFiguresRecord(ReceiptRateRecord):
    """The figures of a receipt, which are whole numbers. The rate of the report is part / whole."""

    steps: list[ReceiptStepRecord]
    cohorts: list[ReceiptCohortRecord] | MISSING = MISSING
    """The cohorts with most units, at most 50. Not in receipts of form 1."""
    cohorts_total: int | MISSING = MISSING

    def holds_in(self, other: "ReceiptFiguresRecord") -> bool:
        """Whether another count has all numbers of these figures. The names of its steps and the
        values of its cohorts do not matter.
        """
        return _has(other.model_dump(), self.model_dump())


def _has(count: Any, original: Any) -> bool:
    """Whether a part of a count has all numbers that the same part of the original has."""
    if isinstance(original, dict):
        return all(
            _has(count.get(name), each)
            for name, each in original.items()
            if name not in ("name", "values")
        )
    if isinstance(original, list):
        return len(count or ()) == len(original) and all(map(_has, count, original))
    return bool(count == original)


class ReceiptFunnelRecord(Record):
    id: str
    name: str
    revision: int


class UseRecord(Record):
    """Something that the question reads beside the funnel: a goal, a segment, a saved cohort or the
    filters of internal traffic.
    """

    kind: str
    id: str
    name: str
    revision: str
    """For a saved cohort: a hash of its visitors."""


class ReceiptWebsiteRecord(Record):
    id: str
    name: str


class DaySumRecord(Record):
    """The events of a website on a UTC day."""

    website: str
    day: str
    number: int
    sum: str
    """Sum modulo 2^128 of the keyed hashes of the events' content, in hexadecimal."""


class EarlierRecord(Record):
    """The events of a website before the period."""

    website: str
    number: int


class SumRecord(Record):
    number: int
    sum: str


class SumsRecord(Record):
    form: int
    """Version of the canonical form of what is summed up."""
    events: list[DaySumRecord]
    earlier: list[EarlierRecord]
    merges: SumRecord
    """Visitors with events in the period that count as others."""
    traits: SumRecord
    """Visitors whose traits the funnel reads."""
    newest_merge: int
    newest_traits: int


class ReceiptDocument(Record):
    """The signed content of a receipt."""

    format: Literal[1, 2]
    id: str
    url: str
    name: str
    at: Iso
    """Everything that was received up to this time had been stored, and nothing later was
    counted.
    """
    penstock: str
    """Version of Penstock that counted."""
    funnel: ReceiptFunnelRecord
    definition: SavedDefinition
    question: dict[str, str]
    """Query parameters of the results."""
    timezone: str
    """Time zone of the report. The days of the sums are in UTC."""
    period: PeriodRecord
    websites: list[ReceiptWebsiteRecord]
    uses: list[UseRecord]
    unit: str
    """Singular of the counted units: visitor, attempt or run."""
    figures: ReceiptFiguresRecord
    notes: list[str]
    """The report's notes about its coverage."""
    sums: SumsRecord


class ReceiptFile(Record):
    """A signed receipt, as a file."""

    algorithm: str
    key_id: str
    receipt: ReceiptDocument
    signature: str
    """Signature of the canonical JSON of `receipt`, in base64."""


class ReceiptFileIn(Input):
    """The file of a receipt, unchanged."""

    algorithm: str
    key_id: str
    receipt: dict[str, Any]
    signature: str


class ReceiptRecord(Record):
    """A receipt in lists."""

    id: str
    name: str
    url: str
    funnel_id: str
    created_at: Iso
    created_by: str | None
    """Email address of the member or name of the API key that created it; null for a file whose
    receipt this service does not have.
    """
    at: Iso
    question: dict[str, str]
    period: PeriodRecord
    timezone: str
    unit: str
    figures: ReceiptFiguresRecord
    revision: int
    """Revision of the funnel's definition."""
    penstock: str
    key_id: str


class ChangeKind(StrEnum):
    """The kind of a change since a receipt was made.

    LATE: events of its period arrived after it. LATER: events of its windows occurred after it.
    EARLIER: events from before its period arrived after it. MERGES, SEPARATIONS, TRAITS: visitors
    were merged or separated, or their traits changed. DEFINITION: the funnel, a goal, a segment, a
    cohort or the internal traffic changed. WEBSITES: websites were added or deleted. GONE: events
    that it counted were removed. ALTERED: the content of events changed. UNKNOWN: events were
    stored after it that had been received before it. RESTORED: the service was restored from a
    backup. VERSION: another version of Penstock counts. REFUSED: its question can no longer be
    answered.
    """

    LATE = "late"
    LATER = "later"
    EARLIER = "earlier"
    MERGES = "merges"
    SEPARATIONS = "separations"
    TRAITS = "traits"
    DEFINITION = "definition"
    WEBSITES = "websites"
    GONE = "gone"
    ALTERED = "altered"
    UNKNOWN = "unknown"
    RESTORED = "restored"
    VERSION = "version"
    REFUSED = "refused"


class ReceiptChangeRecord(Record):
    kind: ChangeKind
    number: int | MISSING = MISSING
    """Number of events, visitors or websites."""
    text: str
    """The change in a sentence."""


class GoneRecord(Record):
    """The events and units that a receipt counted and that were removed since."""

    events: int
    units: int | None
    """null if the definition changed as well."""


class OpenedReceiptRecord(Record):
    """A receipt, compared with what is stored now."""

    receipt: ReceiptRecord
    is_unchanged: bool
    """Whether the figures are the same now."""
    sentences: list[str]
    changes: list[ReceiptChangeRecord]
    now: ReceiptFiguresRecord | None
    """The figures now; null if the question can no longer be answered."""
    recount: ReceiptFiguresRecord | None
    """The figures of what the receipt had counted, counted again without everything that came
    later; null if this is not stored as it was.
    """
    recount_is_equal: bool | None
    gone: GoneRecord | None


class ReceiptKeyRecord(Record):
    key_id: str
    algorithm: str
    public_key: str
    """32 bytes in base64."""
    created_at: Iso
    retired_at: Iso | None
    """When another key replaced it. Its receipts stay valid."""


class ReceiptKeysRecord(Record):
    keys: list[ReceiptKeyRecord]
