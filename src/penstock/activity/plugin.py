"""The activity room: visitors with their timelines, exports of personal data, and live events."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.activity.live import routes as live_routes
from penstock.activity.live.service import LiveService, ReadLostEvents
from penstock.activity.personal_data import routes as personal_data_routes
from penstock.activity.personal_data.service import PersonalDataService
from penstock.activity.visitors import routes as visitor_routes
from penstock.activity.visitors.service import VisitorService
from penstock.core import Core, Room
from penstock.identity.profiles.service import PersonNames
from penstock.metadb.person import ReadPerson
from penstock.warehouse.client import WaitUntilShipped


@dataclass(frozen=True)
class ActivityRoom(Room):
    visitors: VisitorService
    personal_data: PersonalDataService
    live: LiveService

    routes = (*visitor_routes.ROUTES, *personal_data_routes.ROUTES, *live_routes.ROUTES)


def build(
    core: Core,
    accounts: AccountsRoom,
    people: PersonNames,
    *,
    wait_until_shipped: WaitUntilShipped,
    read_other_rooms: Sequence[ReadPerson],
    read_lost_events: ReadLostEvents,
) -> ActivityRoom:
    """Create the activity room.

    people: names the people behind visitors.
    read_other_rooms: functions of rooms that this room does not import, with a person's data.
    read_lost_events: counts lost events; provided by the events room.
    """
    websites = accounts.website_service
    return ActivityRoom(
        visitors=VisitorService(core, websites, people, wait_until_shipped=wait_until_shipped),
        personal_data=PersonalDataService(
            core,
            websites,
            wait_until_shipped=wait_until_shipped,
            read_other_rooms=read_other_rooms,
        ),
        live=LiveService(
            core,
            websites,
            people,
            wait_until_shipped=wait_until_shipped,
            read_lost_events=read_lost_events,
        ),
    )
