"""`penstock demo`: starts a new service with the data of a shop, sent and read over HTTP."""

import re
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import httpx
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from penstock.backup.tree import entries_of
from penstock.base.chunks import chunks
from penstock.base.clock import system_clock
from penstock.base.rates import percent
from penstock.cli.client import Record
from penstock.cli.configuration import start_command
from penstock.cli.demo_links import APP, use_links
from penstock.cli.demo_shop import (
    CHECKOUT_FUNNEL,
    VISIT_FUNNEL,
    DemoRequest,
    Route,
    Shop,
    shop_events,
)
from penstock.cli.options import Host, Port, fail, folder_of
from penstock.cli.progress import Progress, every_few_seconds, progress, still_running
from penstock.cli.serve import banner, run

if TYPE_CHECKING:
    from penstock.app import Services

EMAIL = "demo@example.com"
_BATCH = 1_000
_SENDERS = 8

_Call = Callable[[], httpx.Response]


def demo(
    context: typer.Context,
    host: Host = None,
    port: Port = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="New or empty folder to keep; default: a temporary folder.",
            parser=folder_of,
            metavar="PATH",
        ),
    ] = None,
) -> None:
    """Start a new service with about 20,000 events of a shop, two funnels and three links."""
    with _empty_folder(data) as folder:
        # The demo ignores settings for stores, so that it writes only to the folder it creates.
        settings = start_command(None, context.obj, host=host, port=port, data=folder)
        others = ("database_url", "warehouse_url", "warehouse_cluster", "public_url")
        own_settings = settings.model_copy(update=dict.fromkeys(others))
        run(own_settings, partial(_fill_and_report, is_temporary=data is None))


@contextmanager
def _empty_folder(data: Path | None) -> Iterator[Path]:
    if data is None:
        with tempfile.TemporaryDirectory(
            prefix="penstock-demo-", ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder)
        return
    if data.exists() and (not data.is_dir() or entries_of(data)):
        fail(f"{data} is not empty; the demo needs a new or empty folder")
    yield data


def _fill_and_report(services: "Services", *, is_temporary: bool) -> None:
    from penstock.web.pages.schema import ReportPageQuery

    console = Console(highlight=False)
    address, password = services.settings.local_url, secrets.token_urlsafe(9)
    with httpx.Client(base_url=address, timeout=60) as client:
        form = {"email": EMAIL, "password": password, "workspaceName": "Acme"}
        _answer(client.post("/api/auth/signup", json=form))
        key = _answer(client.post("/api/settings/api-keys", json={"name": "demo"}))["key"]
        client.cookies.clear()
        client.headers["Authorization"] = f"Bearer {key}"
        shop = Shop(
            _website(client, {"name": "Acme shop", "kind": "web"}),
            _website(client, {"name": "Acme app", "kind": "mobile", **APP}),
        )
        requests = shop_events(shop, system_clock())
        with progress("events") as bar:
            _send(client, requests, bar)
        with every_few_seconds(still_running("Opening links")):
            use_links(client, shop.app_id)
        funnel, _ = [
            _answer(client.post("/api/funnels", json=definition))
            for definition in (CHECKOUT_FUNNEL, VISIT_FUNNEL)
        ]
        # Use the default period of the page, so that the page and the command show the same
        # numbers.
        period = ReportPageQuery().parameters(system_clock())
        path = f"/api/funnels/{funnel['id']}/results"
        results = _answer(client.get(path, params={**period, "pageSize": "6"}))
    console.print(
        _steps_table(f"{funnel['name']}, attempts of the last 30 days", results),
        _cohorts_table(results),
        sep="\n",
    )
    console.print(_quality(results), soft_wrap=True)
    console.print(
        f"\nReport   {address}/funnels/{funnel['id']}",
        f"Login    {EMAIL} with the password {password}",
        f"API key  {key}",
        "",
        sep="\n",
        soft_wrap=True,
    )
    print(banner(services), flush=True)
    console.print(
        f"\nThe same numbers:  curl -H 'Authorization: Bearer {key}' "
        f"'{address}{path}?{urlencode(period, safe=':')}'",
        "\nCtrl-C stops the demo" + (" and deletes its data." if is_temporary else "."),
        soft_wrap=True,
        sep="\n",
    )


def _website(client: httpx.Client, website: Record) -> str:
    """Create a website or app. The demo's website and app share their visitors."""
    body = {**website, "identityScope": "acme"}
    return str(_answer(client.post("/api/settings/websites", json=body))["id"])


def _answer(response: httpx.Response) -> Record:
    response.raise_for_status()
    record: Record = response.json()
    return record


def _send(client: httpx.Client, requests: Sequence[DemoRequest], bar: Progress) -> None:
    """Send the requests day by day, because a visitor's login must come after their earlier
    events.
    """
    sent = 0
    with ThreadPoolExecutor(_SENDERS) as senders:
        for _, group in groupby(requests, key=lambda request: request.at_ms // 86_400_000):
            day = list(group)
            for route in Route:
                calls = list(
                    _calls(client, route, [request for request in day if request.route is route])
                )
                for response in senders.map(lambda call: call(), calls):
                    response.raise_for_status()
            sent += len(day)
            bar.update("Sending", sent, len(requests))


def _calls(client: httpx.Client, route: Route, requests: Sequence[DemoRequest]) -> Iterator[_Call]:
    """Yield the HTTP calls that send these requests, which all go to the same route."""
    bodies = [request.body for request in requests]
    match route:
        case Route.TRACK:
            for agent in sorted({request.agent for request in requests}):
                sent = [request.body for request in requests if request.agent == agent]
                yield from _posts(client, "/api/track", _batches(sent), agent)
        case Route.EVENT:
            yield from _posts(client, "/api/v1/events/batch", _batches(bodies))
        case Route.TRANSACTION:
            yield from _posts(client, "/api/v1/transactions", bodies)
        case Route.IDENTIFY:
            yield from _posts(client, "/api/identify", bodies)


def _batches(events: Sequence[Record]) -> list[Record]:
    return [{"events": batch} for batch in chunks(events, _BATCH)]


def _posts(
    client: httpx.Client, path: str, bodies: Sequence[Record], agent: str = "acme-backend"
) -> Iterator[_Call]:
    return (partial(client.post, path, json=body, headers={"User-Agent": agent}) for body in bodies)


def _steps_table(title: str, results: Record) -> Table:
    table = _table(title, ("Step",), ("Count", "Of all", "Of previous", "Pending", "Dropped off"))
    aggregate = results["aggregate"]
    diagnostics = {row["afterStep"]: row for row in aggregate["diagnostics"]}
    for step in aggregate["steps"]:
        rates = (_percent(step["conversionFromStart"]), _percent(step["conversionFromPrevious"]))
        table.add_row(
            f"{step['step']} {step['value']}",
            f"{step['count']:,}",
            *rates,
            f"{step['pending']:,}",
            f"{step['droppedOff']:,}",
        )
        if row := diagnostics.get(step["step"]):
            table.add_row(f"  {row['value']}", f"{row['units']:,}", "", "", "", "", style="dim")
    return table


def _cohorts_table(results: Record) -> Table:
    cohorts = results["cohorts"]["data"]
    table = _table(
        "Largest cohorts, by properties at entry",
        cohorts[0]["label"],
        ("Entered", "Completed", "Rate", "Median minutes"),
    )
    for cohort in cohorts:
        median = cohort["medianCompletionMinutes"]
        counts = (
            f"{cohort['entered']:,}",
            f"{cohort['completed']:,}",
            _percent(cohort["conversionRate"]),
        )
        table.add_row(
            *map(str, cohort["label"].values()), *counts, "" if median is None else f"{median:.1f}"
        )
    return table


def _quality(results: Record) -> str:
    """Format all data quality counts that are not zero as one line."""
    counts = results["dataQuality"].items()
    return "  Data quality: " + ", ".join(
        f"{count:,} {_spaced(name)}" for name, count in counts if isinstance(count, int) and count
    )


def _spaced(name: str) -> str:
    """Split a camel-case name into words: `sequenceSkips` becomes `sequence skips`."""
    return re.sub("[A-Z]", lambda capital: f" {capital[0].lower()}", name)


def _table(title: str, names: Iterable[str], numbers: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE)
    for name in names:
        table.add_column(name, no_wrap=True)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table


def _percent(rate: float | None) -> str:
    return "" if rate is None else percent(rate)
