"""The sums of a receipt, computed by a second program from the rows of the event store."""

import pytest

from penstock.base.clock import parse_time
from penstock.funnels.statements.content_sums import EVENT_FIELDS
from tests.funnels.scenario import Scene
from tests.receipts.conftest import tell
from tests.receipts.siphash import siphash_128
from tests.tenant import sign_up

pytestmark = pytest.mark.usefixtures("warehouse")


def test_the_second_program_computes_the_published_hash():
    key = tuple(int.from_bytes(bytes(range(at, at + 8)), "little") for at in (0, 8))
    assert siphash_128(key, b"\0").hex() == "da87c1d86b99af44347659119b22fc45"


def sums_of(scene, warehouse, key):
    """Return the number and the sum by day, of all events of the website."""
    columns = ", ".join(
        f"toString(toUnixTimestamp64Milli({name}))" if name.endswith("_at") else f"toString({name})"
        for name in EVENT_FIELDS
    )
    sql = f"SELECT {columns} FROM events WHERE website_id = {{website:String}}"  # noqa: S608
    website = scene.tenant.website_id
    sums = {}
    for row in warehouse.query(sql, {"website": website})[1]:
        form = "".join(f"{len(text.encode())}:{text}" for text in row)
        at_ms = int(row[EVENT_FIELDS.index("occurred_at")])
        number, total = sums.get(at_ms // 86_400_000, (0, 0))
        digest = int.from_bytes(siphash_128(key, form.encode()), "little")
        sums[at_ms // 86_400_000] = (number + 1, (total + digest) % 2**128)
    return sums


def test_the_sums_are_those_of_a_second_program(keeping, scene, services, warehouse):
    scene.server_event(60, "C", visitorId="visitor-1", userId="ünï", properties={"ö": [1.5, None]})
    scene.track([scene.pageview(120, "/a?b=c", "visitor-2", title="T")])
    file = keeping.file(keeping.keep())
    keys = services.receipt_keys
    key = keys.hash_key(keys.find(file["keyId"]), file["receipt"]["id"])
    listed = {
        parse_time(f"{each['day']}T00:00:00Z") // 86_400_000: (each["number"], int(each["sum"], 16))
        for each in file["receipt"]["sums"]["events"]
    }
    assert sum(number for number, _ in listed.values()) == 34
    assert listed == sums_of(scene, warehouse, key)


def test_the_same_events_have_other_sums_in_another_receipt(keeping):
    first, last = (keeping.file(keeping.keep())["receipt"]["sums"] for _ in range(2))
    assert [day["number"] for day in first["events"]] == [day["number"] for day in last["events"]]
    assert not {day["sum"] for day in first["events"]} & {day["sum"] for day in last["events"]}


def test_sums_never_depend_on_ids_that_storing_gives(scene, server, clock, services, warehouse):
    """The same events of another workspace have the same sums under the same key."""
    other = Scene(sign_up(server), clock)
    other.start_ms = scene.start_ms
    tell(other)
    services.shipper.ship()
    first, last = (sums_of(each, warehouse, (1, 2)) for each in (scene, other))
    assert first == last
    assert sum(number for number, _ in first.values()) == 32
