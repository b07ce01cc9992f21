"""Small exports in the documented shapes of other products. Each tells the same story.

Five people visit `/pricing` on 1 May 2024, in UTC:

- Ann views the page at 10:00, logs in, starts a checkout at 10:05, and pays at 10:10. The payment
  comes from her backend, which knows only her user ID.
- Ben views the page and starts a checkout, and never pays.
- Cem only views the page.
- Dia views the page on her phone at 11:00, logs in there and on her laptop, starts a checkout on
  the laptop at 11:10, and pays at 11:20.
- Eve logs in on Ann's device at 12:00 and views the page. The device is Ann's already, so this is a
  conflict, and nothing is merged.
"""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

STARTED, PAID = "checkout_started", "order_paid"
Line = dict[str, Any]


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2024-05-01T{clock}:00").replace(tzinfo=UTC)


def lines(objects: Iterable[Line]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)


class Mixpanel:
    """A raw event export of a project with the simplified ID merge.

    Events of the web client have `$device_id`, and `$user_id` after the log-in; `distinct_id` is
    the user ID or `$device:` and the device ID. Backends send `distinct_id` alone. Sources:
    https://docs.mixpanel.com/reference/raw-event-export and
    https://docs.mixpanel.com/docs/tracking-methods/id-management/identifying-users-simplified
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def event(self, name: str, clock: str, **properties: Any) -> None:
        self.lines.append(
            {
                "event": name,
                "properties": {
                    "time": int(at(clock).timestamp()),
                    "$insert_id": f"insert-{len(self.lines)}",
                    "mp_processing_time_ms": 1714560000000,
                    **properties,
                },
            }
        )

    def web(self, name: str, clock: str, device: str, user: str | None = None, **own: Any) -> None:
        known = {"$user_id": user} if user else {}
        self.event(
            name, clock,
            distinct_id=user or f"$device:{device}",
            **{"$device_id": device, **known, "$os": "Mac OS X", "$browser": "Chrome"},
            **{"mp_country_code": "DE", "$city": "Berlin", "mp_lib": "web", **own},
        )  # fmt: skip

    def page(self, clock: str, device: str, user: str | None = None) -> None:
        url = "https://shop.example/pricing?utm_source=news"
        self.web("$mp_web_page_view", clock, device, user, **{"$current_url": url})

    def story(self) -> bytes:
        self.page("10:00", "d1")
        self.web("logged_in", "10:01", "d1", "ann")
        self.web(STARTED, "10:05", "d1", "ann", plan="pro")
        self.event(PAID, "10:10", distinct_id="ann", mp_lib="python")
        self.page("10:00", "d2")
        self.web(STARTED, "10:02", "d2")
        self.page("10:00", "d3")
        self.page("11:00", "d4")
        self.web("logged_in", "11:01", "d4", "dia")
        self.web(STARTED, "11:10", "d5", "dia", plan="basic")
        self.event(PAID, "11:20", distinct_id="dia", mp_lib="python")
        self.page("12:00", "d1", "eve")
        return lines(self.lines)


class PostHog:
    """A batch export of events, as JSON Lines.

    Events of the web client have `$device_id` and `$is_identified`; backends send `distinct_id`
    alone. Sources: https://posthog.com/docs/data-pipelines/batch-exports/s3 and
    https://posthog.com/docs/product-analytics/identify
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def event(self, name: str, clock: str, distinct_id: str, **properties: Any) -> None:
        self.lines.append(
            {
                "uuid": f"018f31a0-0000-7000-8000-{len(self.lines):012}",
                "event": name,
                "timestamp": at(clock).isoformat(),
                "inserted_at": at("23:00").isoformat(),
                "distinct_id": distinct_id,
                "person_id": "018f31a0-1111-7000-8000-000000000000",
                "properties": properties,
                "person_properties": {"plan": "pro", "$initial_os": "Linux"},
                "elements_chain": "",
            }
        )

    def web(self, name: str, clock: str, device: str, user: str | None = None, **own: Any) -> None:
        self.event(
            name, clock, user or device,
            **{"$device_id": device, "$is_identified": user is not None, "$os": "Linux"},
            **{"$browser": "Firefox", "$device_type": "Desktop", "$lib": "web", "token": "phc_1"},
            **{"$geoip_country_code": "DE", "$geoip_city_name": "Berlin", "$set": {"a": 1}, **own},
        )  # fmt: skip

    def page(self, clock: str, device: str, user: str | None = None) -> None:
        url = "https://shop.example/pricing?utm_source=news"
        self.web("$pageview", clock, device, user, **{"$current_url": url, "$pathname": "/pricing"})

    def log_in(self, clock: str, device: str, user: str, anonymous: str) -> None:
        self.web("$identify", clock, device, user, **{"$anon_distinct_id": anonymous})

    def story(self) -> bytes:
        self.page("10:00", "d1")
        self.log_in("10:01", "d1", "ann", "d1")
        self.web(STARTED, "10:05", "d1", "ann", plan="pro")
        self.event(PAID, "10:10", "ann", **{"$lib": "posthog-python"})
        self.page("10:00", "d2")
        self.web(STARTED, "10:02", "d2")
        self.page("10:00", "d3")
        self.page("11:00", "d4")
        self.log_in("11:01", "d4", "dia", "d4")
        self.log_in("11:09", "d5", "dia", "d5")
        self.web(STARTED, "11:10", "d5", "dia", plan="basic")
        self.event(PAID, "11:20", "dia", **{"$lib": "posthog-python"})
        self.log_in("11:59", "d1", "eve", "ann")
        self.page("12:00", "d1", "eve")
        return lines(self.lines)

    def as_parquet(self) -> bytes:
        """The story as a batch export in Parquet, which has JSON text for objects."""
        self.story()
        columns: dict[str, list[Any]] = {
            name: [each[name] for each in self.lines] for name in self.lines[0]
        }
        for name in ("properties", "person_properties"):
            columns[name] = [json.dumps(each) for each in columns[name]]
        columns["timestamp"] = [datetime.fromisoformat(each) for each in columns["timestamp"]]
        return parquet(columns)


class Amplitude:
    """The archive of the Export API: gzip files with an event in each line.

    Events of devices have `device_id`, and `user_id` after the log-in; backends send `user_id`
    alone. Sources: https://amplitude.com/docs/apis/analytics/export and
    https://amplitude.com/docs/data/sources/instrument-track-unique-users
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def event(
        self, name: str, clock: str, device: str | None, user: str | None = None, **own: Any
    ) -> None:
        time = at(clock).strftime("%Y-%m-%d %H:%M:%S.%f")
        self.lines.append(
            {
                "event_type": name,
                "event_time": time,
                "client_event_time": time,
                "server_upload_time": "2024-05-01 23:00:00.000000",
                "device_id": device,
                "user_id": user,
                "amplitude_id": 1234567890123,
                "uuid": f"018f31a0-0000-11ef-8000-{len(self.lines):012}",
                "$insert_id": f"insert-{len(self.lines)}",
                "session_id": 1714557600000 if device else -1,
                "country": "Germany",
                "region": "Berlin",
                "city": "Berlin",
                "os_name": "Chrome",
                "platform": "Web",
                "device_carrier": None,
                "event_properties": own,
                "user_properties": {"plan": "pro"} if user else {},
                "groups": {},
            }
        )

    def page(self, clock: str, device: str, user: str | None = None) -> None:
        url = "https://shop.example/pricing?utm_source=news"
        own = {"[Amplitude] Page URL": url, "[Amplitude] Page Path": "/pricing"}
        self.event("[Amplitude] Page Viewed", clock, device, user, **own)

    def story(self) -> bytes:
        self.page("10:00", "d1")
        self.event("$identify", "10:01", "d1", "ann")
        self.event(STARTED, "10:05", "d1", "ann", plan="pro")
        self.event(PAID, "10:10", None, "ann")
        self.page("10:00", "d2")
        self.event(STARTED, "10:02", "d2")
        self.event("$identify", "10:03", "d2")
        self.page("10:00", "d3")
        self.page("11:00", "d4")
        self.event("logged_in", "11:01", "d4", "dia")
        self.event(STARTED, "11:10", "d5", "dia", plan="basic")
        self.event(PAID, "11:20", None, "dia")
        self.page("12:00", "d1", "eve")
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for hour, part in ((10, self.lines[:8]), (11, self.lines[8:])):
                name = f"187520/187520_2024-05-01_{hour}#0.json.gz"
                archive.writestr(name, gzip.compress(lines(part)))
        return content.getvalue()


class GA4:
    """The BigQuery export of Google Analytics 4, whose JSON has whole numbers as text.

    Source: https://support.google.com/analytics/answer/7029846
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def event(
        self, name: str, clock: str, device: str | None, user: str | None = None, **own: str
    ) -> None:
        parameters = [{"key": key, "value": {"string_value": own[key]}} for key in own]
        session = {"key": "ga_session_id", "value": {"int_value": "1714557600"}}
        self.lines.append(
            {
                "event_date": "20240501",
                "event_timestamp": f"{int(at(clock).timestamp())}000123",
                "event_name": name,
                "event_params": [session, *parameters],
                "user_id": user,
                "user_pseudo_id": device,
                "user_properties": [{"key": "plan", "value": {"string_value": "pro"}}],
                "device": {"category": "desktop", "web_info": {"browser": "Chrome"}},
                "geo": {"country": "Germany", "city": "(not set)"},
                "items": [],
            }
        )

    def page(self, clock: str, device: str, user: str | None = None) -> None:
        url = "https://shop.example/pricing?utm_source=news"
        self.event("page_view", clock, device, user, page_location=url)

    def story(self) -> bytes:
        self.page("10:00", "d1")
        self.event("logged_in", "10:01", "d1", "ann")
        self.event(STARTED, "10:05", "d1", "ann", plan="pro")
        self.event(PAID, "10:10", None, "ann")
        self.page("10:00", "d2")
        self.event(STARTED, "10:02", "d2")
        self.page("10:00", "d3")
        self.page("11:00", "d4")
        self.event("logged_in", "11:01", "d4", "dia")
        self.event(STARTED, "11:10", "d5", "dia", plan="basic")
        self.event(PAID, "11:20", None, "dia")
        self.page("12:00", "d1", "eve")
        return lines(self.lines)

    def as_parquet(self) -> bytes:
        """The story as BigQuery writes it to Parquet, with whole numbers."""
        self.story()
        columns = {name: [each[name] for each in self.lines] for name in self.lines[0]}
        columns["event_timestamp"] = [int(each) for each in columns["event_timestamp"]]
        del columns["items"]
        return parquet(columns)


class Segment:
    """Calls of Segment clients as in the raw data of its storage destinations.

    Sources: https://segment.com/docs/connections/storage/catalog/aws-s3/ and
    https://segment.com/docs/connections/spec/common/
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def call(
        self, kind: str, clock: str, device: str | None, user: str | None = None, **more: Any
    ) -> None:
        time = at(clock).isoformat().replace("+00:00", ".000Z")
        self.lines.append(
            {
                "type": kind,
                "messageId": f"ajs-next-{len(self.lines)}",
                "anonymousId": device,
                "userId": user,
                "timestamp": time,
                "originalTimestamp": time,
                "receivedAt": "2024-05-01T23:00:00.000Z",
                "context": {"library": {"name": "analytics.js", "version": "next-1.70.0"}},
                "integrations": {},
                **more,
            }
        )

    def track(
        self, name: str, clock: str, device: str | None, user: str | None, **own: Any
    ) -> None:
        self.call("track", clock, device, user, event=name, properties=own)

    def page(self, clock: str, device: str, user: str | None = None) -> None:
        url = "https://shop.example/pricing?utm_source=news"
        self.call("page", clock, device, user, properties={"path": "/pricing", "url": url})

    def story(self) -> bytes:
        self.page("10:00", "d1")
        self.call("identify", "10:01", "d1", "ann", traits={"plan": "pro"})
        self.call("group", "10:01", "d1", "ann", groupId="g", traits={})
        self.track(STARTED, "10:05", "d1", "ann", plan="pro")
        self.track(PAID, "10:10", None, "ann")
        self.page("10:00", "d2")
        self.track(STARTED, "10:02", "d2", None)
        self.page("10:00", "d3")
        self.page("11:00", "d4")
        self.call("alias", "11:01", None, "dia", previousId="d4")
        self.track(STARTED, "11:10", "d5", "dia", plan="basic")
        self.track(PAID, "11:20", None, "dia")
        self.page("12:00", "d1", "eve")
        return lines(self.lines)


class Table:
    """A table from a database, whose columns need a mapping.

    Its times are seconds since 1970, its IDs are numbers, and cells may be empty.
    """

    COLUMNS = ("at", "device", "customer", "kind", "what", "order_no", "total")

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def row(
        self, kind: str, what: str, clock: str, device: int | None, customer: int | None = None,
        order: int | None = None, total: float | None = None,
    ) -> None:  # fmt: skip
        at_s = int(at(clock).timestamp())
        self.rows.append((at_s, device, customer, kind, what, order, total))

    def page(self, clock: str, device: int, customer: int | None = None) -> None:
        self.row("pageview", "/pricing", clock, device, customer)

    def story(self) -> None:
        ann, dia, eve = 101, 104, 105
        self.page("10:00", 1)
        self.row("event", "logged_in", "10:01", 1, ann)
        self.row("event", STARTED, "10:05", 1, ann, 7)
        self.row("event", PAID, "10:10", None, ann, 7, 9.5)
        self.page("10:00", 2)
        self.row("event", STARTED, "10:02", 2, None, 8)
        self.page("10:00", 3)
        self.page("11:00", 4)
        self.row("event", "logged_in", "11:01", 4, dia)
        self.row("event", STARTED, "11:10", 5, dia, 9)
        self.row("event", PAID, "11:20", None, dia, 9, 20)
        self.page("12:00", 1, eve)

    def as_csv(self) -> bytes:
        """The story as a spreadsheet writes it: UTF-16, with semicolons."""
        self.story()
        out = io.StringIO()
        writer = csv.writer(out, delimiter=";")
        writer.writerow(self.COLUMNS)
        writer.writerows(self.rows)
        return out.getvalue().encode("utf-16")

    def as_parquet(self) -> bytes:
        """The story as Parquet, whose empty cells make floats of some numbers."""
        self.story()
        columns = dict(zip(self.COLUMNS, map(list, zip(*self.rows, strict=True)), strict=True))
        columns["customer"] = pa.array(columns["customer"], pa.float64())
        return parquet(columns)


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    """A Parquet file with these columns. options: those of `pyarrow.parquet.write_table`."""
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **options)
    return out.getvalue()


TABLE_MAPPING = {
    "columns": [
        {"column": "at", "use": "time", "unit": "seconds"},
        {"column": "device", "use": "visitor"},
        {"column": "customer", "use": "user"},
        {"column": "kind", "use": "type"},
        {"column": "what", "use": "event"},
        {"column": "order_no", "use": "attempt"},
        {"column": "total", "use": "property", "type": "number"},
    ]
}
"""The uses of the columns of `Table`."""
FILES: dict[str, Callable[[], bytes]] = {
    "mixpanel": lambda: Mixpanel().story(),
    "posthog": lambda: PostHog().story(),
    "amplitude": lambda: Amplitude().story(),
    "segment": lambda: Segment().story(),
    "ga4": lambda: GA4().story(),
}
"""The story as a file, by format."""
TABLES: dict[str, Callable[[], bytes]] = {
    "csv": lambda: Table().as_csv(),
    "parquet": lambda: Table().as_parquet(),
}
"""The story as a table that needs `TABLE_MAPPING`, by format."""
