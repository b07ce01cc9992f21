"""Wiring of Segment's and RudderStack's tracking protocol."""

from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.core import Core, Room
from penstock.events.plugin import EventsRoom
from penstock.segment import routes
from penstock.segment.service import SegmentService


@dataclass(frozen=True)
class SegmentRoom(Room):
    segment: SegmentService

    routes = routes.ROUTES


def build(core: Core, accounts: AccountsRoom, events: EventsRoom) -> SegmentRoom:
    return SegmentRoom(
        segment=SegmentService(
            core,
            accounts.key_service,
            accounts.website_service,
            accounts.identity_secrets,
            events.events,
            events.intake,
            events.quarantine,
        )
    )
