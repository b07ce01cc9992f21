"""Wire types for alerts."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from penstock.alerts.model import (
    ChannelKind,
    Comparison,
    ConditionKind,
    DeliveryState,
    MessageKind,
    Verdict,
)
from penstock.base.errors import Fault
from penstock.base.patterns import Pattern
from penstock.catalogue.schema import EventName
from penstock.funnels.saved_cohorts.schema import SavedParameters
from penstock.http.period import AS_TIME, known_timezone, read_time_ms
from penstock.http.schema import (
    OMITTABLE,
    Input,
    Iso,
    Name,
    Omittable,
    Record,
    RuleBroken,
    RulesBroken,
)
from penstock.outbound.targets import MAX_URL_CHARS

MAX_CHANNELS = 10
_DAY_MINUTES = 1_440
_CLOCK_TIME = Pattern(r"([01][0-9]|2[0-3]):[0-5][0-9]")

_NEEDS: Mapping[ConditionKind, tuple[str, ...]] = {
    ConditionKind.RATE: ("funnel_id", "when"),
    ConditionKind.SILENCE: ("event", "minutes"),
    ConditionKind.REJECTIONS: ("level",),
    ConditionKind.LAG: ("minutes",),
}
"""The fields that each kind of condition requires."""
_MAY_HAVE: Mapping[ConditionKind, tuple[str, ...]] = {
    ConditionKind.RATE: ("level", "parameters", "min_units"),
    ConditionKind.SILENCE: ("website_id",),
    ConditionKind.REJECTIONS: ("website_id", "min_units"),
    ConditionKind.LAG: (),
}


def _four_decimals(level: float) -> float:
    if round(level, 4) != level:
        raise RuleBroken("too_precise", "Must have at most four decimals, such as 0.6125.")
    return level


class ConditionIn(Input):
    """The condition of an alert.

    `rate` requires `funnelId`, `when` and, unless it is `unusual`, `level`. `silence` requires
    `event` and `minutes`, `rejections` requires `level`, and `lag` requires `minutes`.
    """

    kind: ConditionKind
    funnel_id: Annotated[str | None, OMITTABLE] = None
    parameters: SavedParameters
    """Query parameters of the trend of the funnel, as texts, such as {"interval": "week",
    "timezone": "Europe/Berlin", "fromStep": "1", "toStep": "2"}. The alert chooses the period.
    """
    when: Annotated[Comparison | None, OMITTABLE] = None
    level: Annotated[
        float | None,
        Field(ge=0, le=1),
        AfterValidator(lambda v: v and _four_decimals(v)),
        OMITTABLE,
    ] = None
    """A share from 0 to 1, such as 0.6 for 60%."""
    min_units: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    """Judge a period only if it has at least this many units, or events for `rejections`."""
    event: Annotated[EventName | None, OMITTABLE] = None
    """Name of an event, page path or screen."""
    website_id: Annotated[str | None, OMITTABLE] = None
    """Only events of this website or app."""
    minutes: Annotated[int | None, Field(ge=5, le=30 * _DAY_MINUTES), OMITTABLE] = None

    @model_validator(mode="after")
    def _has_fields_of_kind(self) -> "ConditionIn":
        needed = _NEEDS[self.kind]
        if self.kind is ConditionKind.RATE and self.when not in (None, Comparison.UNUSUAL):
            needed = (*needed, "level")
        known = {"kind", *needed, *_MAY_HAVE[self.kind]}
        alias = {name: field.alias or name for name, field in type(self).model_fields.items()}
        faults = [
            Fault(alias[name], "required", f"An alert of the kind {self.kind} needs this field.")
            for name in needed
            if getattr(self, name) is None
        ]
        faults += [
            Fault(
                alias[name],
                "not_for_type",
                f"An alert of the kind {self.kind} does not have this field. Leave it out.",
            )
            for name in alias
            if name in self.model_fields_set and name not in known
        ]
        if faults:
            raise RulesBroken(faults)
        return self


class ChannelIn(Input):
    """A destination of messages: a new one with `kind`, or one to keep with its `id` only."""

    id: Annotated[str | None, OMITTABLE] = None
    kind: Annotated[ChannelKind | None, OMITTABLE] = None
    user_id: Annotated[str | None, OMITTABLE] = None
    """The member who gets an email."""
    url: Annotated[str | None, Field(max_length=MAX_URL_CHARS), OMITTABLE] = None
    """URL of a webhook, or incoming webhook of a chat."""

    @model_validator(mode="after")
    def _is_one_destination(self) -> "ChannelIn":
        needed = {
            None: "id", ChannelKind.EMAIL: "user_id",
            ChannelKind.WEBHOOK: "url", ChannelKind.CHAT: "url",
        }[self.kind]  # fmt: skip
        sent = {name for name in ("id", "user_id", "url") if getattr(self, name) is not None}
        if sent != {needed}:
            raise RuleBroken(
                "not_allowed",
                "Send kind email with userId, kind webhook or chat with url, or only the id of a "
                "channel to keep.",
            )
        return self


def _clock_time(value: str) -> str:
    if not _CLOCK_TIME.fullmatch(value):
        raise RuleBroken("not_a_time", "Must be a time of day such as 22:00.")
    return value


ClockTime = Annotated[str, AfterValidator(_clock_time)]


class QuietHoursIn(Input):
    """The time of day during which messages wait. It may span midnight."""

    from_: Annotated[ClockTime, Field(alias="from")]
    to: ClockTime
    timezone: Annotated[str, Field(max_length=64), AfterValidator(known_timezone)] = "UTC"

    @model_validator(mode="after")
    def _has_length(self) -> "QuietHoursIn":
        if self.from_ == self.to:
            raise RuleBroken("not_allowed", "Must be another time than from.", "to")
        return self


def _require_channel(channels: object) -> object:
    if channels == []:
        text = "Choose at least one channel: an email, a chat or a webhook."
        raise RuleBroken("too_few", text)
    return channels


Channels = Annotated[
    list[ChannelIn],
    Field(min_length=1, max_length=MAX_CHANNELS),
    BeforeValidator(_require_channel),
]


class AlertIn(Input):
    """A new alert."""

    name: Name
    condition: ConditionIn
    channels: Channels
    quiet_hours: QuietHoursIn | None = None
    paused: bool = False


class AlertChange(Input):
    """Changes to an alert. Fields that are left out keep their values."""

    name: Omittable[Name] = None
    condition: Omittable[ConditionIn] = None
    """The whole new condition. The alert starts again with the last closed period."""
    channels: Omittable[Channels] = None
    """All channels. Those that are left out are removed."""
    quiet_hours: QuietHoursIn | None = None
    """null: no quiet hours."""
    paused: Omittable[bool] = None


class SnoozeIn(Input):
    """When an alert may send messages again."""

    until: Annotated[int | str | None, AS_TIME]
    """At most 90 days ahead; null ends the snooze. Messages wait until then."""

    _read_time = field_validator("until", mode="before")(read_time_ms)


class ChannelRecord(Record):
    id: str
    kind: ChannelKind
    user_id: str | None
    url: str | None
    """Only the scheme and host of a webhook or chat, because the rest may be a secret."""
    secret: str | None = None
    """Secret of a new webhook, for checking signatures. It is shown only in this response."""


class AlertRecord(Record):
    """An alert. Its history is in `/checks` and `/messages`."""

    id: str
    name: str
    condition: dict[str, Any]
    """As it was sent, without fields that it does not have."""
    channels: list[ChannelRecord]
    quiet_hours: dict[str, str] | None
    paused: bool
    snoozed_until: Iso | None
    verdict: Verdict
    """The verdict on the last period that is decided."""
    checked_at: Iso | None
    """When the alert was last checked."""
    problem: str | None
    """Why the last check was not possible; null if it was."""
    created_at: Iso
    updated_at: Iso


class CheckRecord(Record):
    """The verdict on one period, with the figures of the moment at which it became final."""

    start_at: Iso
    end_at: Iso
    verdict: Verdict
    figures: dict[str, Any]
    found_at: Iso
    message_id: str | None
    """The message about it; null if it needed none."""


class AlertDeliveryRecord(Record):
    channel_id: str
    kind: ChannelKind
    target: str
    """The user's ID, or the scheme and host of a webhook or chat."""
    state: DeliveryState
    due_at: Iso
    """When it is or was sent: later than the message during quiet hours and after failures."""
    attempts: int
    error: str | None
    """Why the last attempt failed."""
    sent_at: Iso | None


class AlertMessageRecord(Record):
    """A message of an alert."""

    id: str
    alert_id: str
    kind: MessageKind
    subject: str
    lines: list[str]
    link: str
    figures: dict[str, Any]
    corrects: str | None
    """ID of the message that this one corrects."""
    created_at: Iso
    deliveries: list[AlertDeliveryRecord]
