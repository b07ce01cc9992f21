"""Plain types for alerts. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.base.ids import WorkspaceId


class ConditionKind(StrEnum):
    """The subject of an alert.

    RATE: the rate of a funnel over a closed day or week of entries. SILENCE: no event of a name for
    a time. REJECTIONS: the share of rejected events. LAG: the age of the oldest event that waits
    for the event store.
    """

    RATE = "rate"
    SILENCE = "silence"
    REJECTIONS = "rejections"
    LAG = "lag"


class Comparison(StrEnum):
    """When a rate alarms. UNUSUAL: outside the least and greatest rate of the same weekday in the
    last eight weeks, or of the last eight weeks. WILL_SETTLE_BELOW, WILL_SETTLE_ABOVE: already if
    the whole interval of its forecast is below or above a level.
    """

    BELOW = "below"
    ABOVE = "above"
    UNUSUAL = "unusual"
    WILL_SETTLE_BELOW = "will_settle_below"
    WILL_SETTLE_ABOVE = "will_settle_above"

    @property
    def is_forecast(self) -> bool:
        return self in (Comparison.WILL_SETTLE_BELOW, Comparison.WILL_SETTLE_ABOVE)

    @property
    def side(self) -> str:
        """The side of the level, or of the usual rates, in a word: `below`."""
        return self.rpartition("_")[2]


class ChannelKind(StrEnum):
    """EMAIL: a member. WEBHOOK: a URL that gets signed JSON. CHAT: an incoming webhook of a chat
    such as Slack or Discord.
    """

    EMAIL = "email"
    WEBHOOK = "webhook"
    CHAT = "chat"


class Verdict(StrEnum):
    """The result of a check. It is final: only late data, a merge or a deletion can change it, or
    another forecast, if it is about one.

    UNDECIDED: open units, or events to come, still decide.
    """

    ALARMING = "alarming"
    FINE = "fine"
    UNDECIDED = "undecided"


class MessageKind(StrEnum):
    """ALARM: the condition began to hold. RECOVERY: it no longer holds. CORRECTION: late data, a
    merge or a deletion reversed an alarm. TEST: somebody asked for it.
    """

    ALARM = "alarm"
    RECOVERY = "recovery"
    CORRECTION = "correction"
    TEST = "test"


class DeliveryState(StrEnum):
    """CANCELLED: the message was reversed before it could be sent."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Message:
    """A message of an alert, for every channel.

    subject: one line. lines: whole sentences: the rate, its change, where, and who. link: absolute
    URL of the report that reproduces the figures. figures: JSON values for programs. corrects: ID
    of the message that this one corrects. stated: the properties whose values a line states, by
    line, for those that state any.
    """

    subject: str
    lines: tuple[str, ...]
    link: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    corrects: str | None = None
    stated: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def receipt(self) -> str | None:
        """Address of the receipt of the rate; None without one."""
        address: str | None = self.figures.get("receipt")
        return address

    def for_sharing(self, properties: Collection[str]) -> "Message":
        """Return the message without lines that state values of other properties."""
        lines = (line for line in self.lines if {*properties}.issuperset(self.stated.get(line, ())))
        return replace(self, lines=tuple(lines))


class Channel(NamedTuple):
    """A destination of messages.

    target: the user's ID, the URL of a webhook, or the host of a chat. secret: the signing secret
    of a webhook, or the whole URL of a chat, sealed.
    """

    id: str
    kind: ChannelKind
    target: str
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """A saved alert. condition, quiet_hours: as in the API.

    checked_from_ms: periods that end earlier are not judged. basis: identifies the definition
    behind the findings, or has the counts of the last check. problem: why the last check failed;
    None if it did not.
    """

    id: str
    workspace_id: WorkspaceId
    name: str
    condition: Mapping[str, Any]
    is_paused: bool
    checked_from_ms: int
    due_at_ms: int
    created_at_ms: int
    updated_at_ms: int
    verdict: Verdict = Verdict.UNDECIDED
    quiet_hours: Mapping[str, str] | None = None
    snoozed_until_ms: int | None = None
    checked_at_ms: int | None = None
    basis: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one period, with the figures of the moment at which it became final.

    message_id: the message about it; None if it needed none.
    """

    start_at_ms: int
    end_at_ms: int
    verdict: Verdict
    figures: Mapping[str, Any]
    found_at_ms: int
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as stored, with its place in the history of its alert.

    report: path of the page that shows the figures, with all parameters, for members.
    """

    id: str
    alert_id: str
    kind: MessageKind
    message: Message
    report: str
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message on its way to one channel. error: why the last attempt failed, in plain English."""

    id: str
    message_id: str
    channel_id: str
    state: DeliveryState
    due_at_ms: int
    attempts: int = 0
    error: str | None = None
    sent_at_ms: int | None = None


class Address(NamedTuple):
    """The email address of a member. is_confirmed: whether they proved that it is theirs."""

    email: str
    is_confirmed: bool


class WaitingDelivery(NamedTuple):
    """A delivery that waits for its first or next attempt."""

    id: str
    workspace_id: WorkspaceId
    attempts: int
    due_at_ms: int


class DueDelivery(NamedTuple):
    """A delivery that is due, with what it needs."""

    delivery: Delivery
    channel: Channel
    workspace_id: WorkspaceId
    stored: StoredMessage
    quiet_hours: Mapping[str, str] | None
    snoozed_until_ms: int | None
