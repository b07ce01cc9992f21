"""`penstock demo`: a fresh service with a shop in it. Everything goes in and comes out over HTTP, as it would for anyone."""

import re
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from penstock.base.clock import system_clock
from penstock.cli.demo_links import APP, tell_links
from penstock.cli.demo_shop import CHECKOUT_FUNNEL, VISIT_FUNNEL, Route, Shop, Told, shop_events
from penstock.cli.options import Host, Port, fail, read_settings
from penstock.cli.serve import banner, run

if TYPE_CHECKING:
    from penstock.app import Services

EMAIL = "demo@example.com"
_BATCH = 1_000
_SENDERS = 8

Record = dict[str, Any]
_Call = Callable[[], httpx.Response]


def demo(
    host: Host = None,
    port: Port = None,
    data: Annotated[Path | None, typer.Option(help="An empty or new folder to keep; by default one that goes when the demo ends.")] = None,
) -> None:
    """Start a fresh service with about 20,000 events of a shop and its app, two funnels and three managed links."""
    with _fresh(data) as folder:
        # Whatever this machine is set up for, the demo touches nothing but its own folder.
        settings = read_settings(host=host, port=port, data=folder)
        run(settings.model_copy(update={"database_url": None, "warehouse_url": None, "public_url": None}), _fill_and_tell)


@contextmanager
def _fresh(data: Path | None) -> Iterator[Path]:
    if data is None:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        fail(f"{data} is not empty; the demo starts in a new or empty folder")
    yield data


def _fill_and_tell(services: "Services") -> None:
    console = Console(highlight=False)
    settings, password = services.settings, secrets.token_urlsafe(9)
    here = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    address = f"http://[{here}]:{settings.port}" if ":" in here else f"http://{here}:{settings.port}"
    with httpx.Client(base_url=address, timeout=60) as client:
        form = {"email": EMAIL, "password": password, "workspaceName": "Acme"}
        _answer(client.post("/api/auth/signup", json=form))
        key = _answer(client.post("/api/settings/api-keys", json={"name": "demo"}))["key"]
        client.cookies.clear()
        client.headers["Authorization"] = f"Bearer {key}"
        shop = Shop(_website(client, {"name": "Acme shop", "kind": "web"}), _website(client, {"name": "Acme app", "kind": "mobile", **APP}))
        told = shop_events(shop, system_clock())
        with console.status(f"Sending {len(told):,} events of a shop and its app"):
            _send(client, told)
            tell_links(client, shop.app_id)
        funnel, _ = [_answer(client.post("/api/funnels", json=definition)) for definition in (CHECKOUT_FUNNEL, VISIT_FUNNEL)]
        results = _answer(client.get(f"/api/funnels/{funnel['id']}/results", params={"pageSize": 6}))
    console.print(_steps_table(funnel["name"], results), _cohorts_table(results), sep="\n")
    console.print(_quality(results), soft_wrap=True)
    console.print(f"\nLogin    {EMAIL} with the password {password}", f"API key  {key}", "", sep="\n")
    print(banner(services), flush=True)
    console.print(f"\nThe same table:  curl -H 'Authorization: Bearer {key}' {address}/api/funnels/{funnel['id']}/results", soft_wrap=True)


def _website(client: httpx.Client, website: Record) -> str:
    """One of the two that share their visitors."""
    website_id: str = _answer(client.post("/api/settings/websites", json={**website, "identityScope": "acme"}))["id"]
    return website_id


def _answer(response: httpx.Response) -> Record:
    response.raise_for_status()
    record: Record = response.json()
    return record


def _send(client: httpx.Client, told: Sequence[Told]) -> None:
    """In stretches of one day, for a login comes after what the visitor did before it."""
    with ThreadPoolExecutor(_SENDERS) as senders:
        for _, stretch in groupby(told, key=lambda one: one.at_ms // 86_400_000):
            day = list(stretch)
            for route in Route:
                calls = list(_calls(client, route, [one for one in day if one.route is route]))
                for response in senders.map(lambda call: call(), calls):
                    response.raise_for_status()


def _calls(client: httpx.Client, route: Route, told: Sequence[Told]) -> Iterator[_Call]:
    """The requests that tell these events of one route."""
    match route:
        case Route.TRACK:
            for agent in sorted({one.agent for one in told}):
                of_agent = [one.body for one in told if one.agent == agent]
                yield from _posts(client, "/api/track", [{"events": batch} for batch in _batches(of_agent)], agent)
        case Route.EVENT:
            yield from _posts(client, "/api/v1/events/batch", [{"events": batch} for batch in _batches([one.body for one in told])])
        case Route.TRANSACTION:
            yield from _posts(client, "/api/v1/transactions", [one.body for one in told])
        case Route.IDENTIFY:
            yield from _posts(client, "/api/identify", [one.body for one in told])


def _posts(client: httpx.Client, path: str, bodies: Sequence[Record], agent: str = "acme-backend") -> Iterator[_Call]:
    return (partial(client.post, path, json=body, headers={"User-Agent": agent}) for body in bodies)


def _batches(bodies: Sequence[Record]) -> Iterator[Sequence[Record]]:
    return (bodies[start : start + _BATCH] for start in range(0, len(bodies), _BATCH))


def _steps_table(name: str, results: Record) -> Table:
    table = _table(f"{name}, attempts", ("Step",), ("Count", "Of all", "Of previous", "Pending", "Dropped off"))
    aggregate = results["aggregate"]
    diagnostics = {row["afterStep"]: row for row in aggregate["diagnostics"]}
    for step in aggregate["steps"]:
        rates = (_percent(step["conversionFromStart"]), _percent(step["conversionFromPrevious"]))
        table.add_row(f"{step['step']} {step['value']}", f"{step['count']:,}", *rates, f"{step['pending']:,}", f"{step['droppedOff']:,}")
        if row := diagnostics.get(step["step"]):
            table.add_row(f"  {row['value']}", f"{row['units']:,}", "", "", "", "", style="dim")
    return table


def _cohorts_table(results: Record) -> Table:
    cohorts = results["cohorts"]["data"]
    table = _table("The largest cohorts, by what held at entry", cohorts[0]["label"], ("Entered", "Completed", "Rate", "Median minutes"))
    for cohort in cohorts:
        median = cohort["medianCompletionMinutes"]
        counts = (f"{cohort['entered']:,}", f"{cohort['completed']:,}", _percent(cohort["conversionRate"]))
        table.add_row(*map(str, cohort["label"].values()), *counts, "" if median is None else f"{median:.1f}")
    return table


def _quality(results: Record) -> str:
    """What the numbers had to do without, as far as it is a count of its own."""
    found = {name: count for name, count in results["dataQuality"].items() if isinstance(count, int) and count}
    return "  Data quality: " + ", ".join(f"{count:,} {_words(name)}" for name, count in found.items())


def _words(name: str) -> str:
    """A field's name as words: `sequenceSkips` as `sequence skips`."""
    return re.sub("[A-Z]", lambda capital: f" {capital[0].lower()}", name)


def _table(title: str, names: Iterable[str], numbers: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE)
    for name in names:
        table.add_column(name, no_wrap=True)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table


def _percent(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.1%}"
