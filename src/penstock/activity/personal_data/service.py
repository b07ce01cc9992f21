"""Exports everything that both stores contain about a person, as lines of a file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from sqlalchemy import Connection

from penstock.accounts.model import Caller
from penstock.accounts.websites.service import WebsiteService
from penstock.activity.personal_data.schema import PersonalDataLine, PersonQuery
from penstock.activity.schema import StoredEventRecord
from penstock.activity.visitors.schema import LinkedUserRecord, MergeRecord
from penstock.base.clock import iso
from penstock.base.errors import Fault, NotFound
from penstock.base.ids import ScopeId
from penstock.base.temporary_files import temporary_file
from penstock.core import Core
from penstock.http.bodies import bad_parameter
from penstock.identity.profiles import service as profiles
from penstock.identity.profiles.model import Profile
from penstock.metadb.person import Person, ReadPerson, StoredRecord
from penstock.warehouse.client import WaitUntilShipped
from penstock.warehouse.queries import load


class PersonalDataService:
    """Exports personal data. Methods block: call them from a worker thread."""

    def __init__(
        self,
        core: Core,
        websites: WebsiteService,
        *,
        wait_until_shipped: WaitUntilShipped,
        read_other_rooms: Sequence[ReadPerson],
    ) -> None:
        self._database, self._warehouse = core.database, core.warehouse
        self._settings, self._websites = core.settings, websites
        self._wait_until_shipped, self._read_other_rooms = wait_until_shipped, read_other_rooms

    def export(self, caller: Caller, query: PersonQuery) -> IO[bytes]:
        """Write one line per stored record to a temporary file. Returns the file, rewound.

        Raises `NotFound` if nobody has this ID, and `Unauthorized` for another workspace's website.
        """
        website = self._websites.stored_website(caller.workspace_id, query.website_id)
        websites = self._websites.websites_sharing_visitors(website)
        if caller.website_id is not None:  # a key for one website cannot read other websites
            websites = [website.id]
        if (query.visitor_id is None) == (query.user_id is None):
            message = "Send either visitorId or userId."
            raise bad_parameter(Fault("visitorId", "required", message))
        with self._database.read() as db:
            profile = _find(db, website.scope_id, query)
            user_id = profile.user.user_id if profile.user else query.user_id or ""
            sent_ids = [sent_id for sent_id in (*profile.ids, user_id) if sent_id]
            person = Person(profile.scope_id, profile.ids, sent_ids, websites)
            others = (line for read in self._read_other_rooms for line in read(db, person))
            lines = [*_identity(profile), *others]
        self._wait_until_shipped(self._settings.limits.fresh_wait_s)
        parameters = {
            "websites": websites,
            "scope": profile.scope_id,
            "visitors": profile.ids,
            "user": user_id,
        }
        with temporary_file() as file:
            file.writelines(_line(kind, data) for kind, data in lines)
            statement = load("penstock.activity.personal_data", "events_of_person")
            with self._warehouse.stream_blocks(statement, parameters, {}) as blocks:
                for names, rows in blocks:
                    for row in rows:
                        event = StoredEventRecord.from_row(dict(zip(names, row, strict=True)))
                        file.write(_line("event", event.model_dump(by_alias=True)))
        return file


def _find(db: Connection, scope_id: ScopeId, query: PersonQuery) -> Profile:
    if query.visitor_id is not None:
        matching = profiles.find_by_visitor_id(db, [scope_id], query.visitor_id)
    else:
        matching = profiles.find_by_user_id(db, [scope_id], query.user_id or "")
    if not matching:
        raise NotFound(
            "This website has no person with this ID, or their data were deleted.",
            code="visitor_not_found",
        )
    return matching[0]


def _identity(profile: Profile) -> Iterator[StoredRecord]:
    visitor_id, known_since = profile.visitor_id, iso(profile.created_at_ms)
    yield "visitor", {"visitorId": visitor_id, "ids": profile.ids, "knownSince": known_since}
    if profile.user is not None:
        yield "user", LinkedUserRecord.model_validate(profile.user).model_dump()
        for name, statement in profile.user.other_values:
            stated_at = iso(statement.at_ms)
            yield "trait", {"name": name, "value": statement.value, "statedAt": stated_at}
    for merge in profile.absorbed:
        yield "merge", MergeRecord.model_validate(merge).model_dump()


def _line(kind: str, data: Mapping[str, Any]) -> bytes:
    return PersonalDataLine(type=kind, data=dict(data)).model_dump_json().encode() + b"\n"
