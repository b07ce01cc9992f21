"""`penstock demo` as a real process."""

import re
import shlex
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.cli import counted_by_hand
from tests.processes import new_python
from tests.serving import Served, error_of, penstock

START = Path(__file__).parents[2] / "docs/start.md"


@pytest.fixture(scope="module")
def demo(starts_service, tmp_path_factory):
    # The demo must ignore the operator's stores: to write into them would be a disaster.
    elsewhere = {
        "PENSTOCK_DATABASE_URL": "postgresql://127.0.0.1:1/none",
        "PENSTOCK_WAREHOUSE_URL": "http://127.0.0.1:1/none",
        "PENSTOCK_WAREHOUSE_CLUSTER": "none",
    }
    data = tmp_path_factory.mktemp("demo") / "data"
    with Served(data, command="demo", start=new_python, **elsewhere) as running:
        running.client.headers["Authorization"] = (
            "Bearer " + re.search(r"API key  (\S+)", running.output())[1]
        )
        yield running


def checkout(demo):
    funnels = demo.client.get("/api/funnels").json()["data"]
    funnel_ids = {funnel["name"]: funnel["id"] for funnel in funnels}
    return funnel_ids, demo.client.get(f"/api/funnels/{funnel_ids['Checkout']}/results").json()


@contextmanager
def logged_in(demo):
    email, password = re.search(r"Login +(\S+) with the password (\S+)", demo.output()).groups()
    with httpx.Client(base_url=demo.url) as browser:
        form = {"email": email, "password": password}
        assert browser.post("/api/auth/login", json=form).status_code == 200
        yield browser


def test_it_has_two_funnels_and_prints_the_table_of_one(demo):
    funnel_ids, _ = checkout(demo)
    assert sorted(funnel_ids) == ["Checkout", "From the home page to a purchase"]
    assert re.search(r"1 checkout_started +[\d,]+ +100\.0%", demo.output())


def test_its_numbers_are_those_that_the_page_shows_first(demo):
    [address] = re.findall(r"^Report +(\S+)$", demo.output(), re.MULTILINE)
    assert address == f"{demo.url}/funnels/{checkout(demo)[0]['Checkout']}"
    with logged_in(demo) as browser:
        part = browser.get(address, headers={"HX-Request": "true", "HX-Target": "overview"})
        page = re.sub(r"<[^>]*>|\s+", " ", part.text)
    printed = re.findall(r"^  \d (\w+) +([\d,]+) ", demo.output(), re.MULTILINE)
    assert len(printed) == 4
    for name, count in printed:
        assert re.search(rf"\b{name}\b.{{0,400}}?\b{count}\b", page), (name, count)


def test_its_curl_command_gives_the_numbers_that_it_prints(demo):
    command = re.search(r"The same numbers: +(curl .*)", demo.output())[1]
    _, _, key, url = shlex.split(command)
    assert key == demo.client.headers["Authorization"].join(["Authorization: ", ""])
    steps = demo.client.get(url).json()["aggregate"]["steps"]
    printed = re.findall(r"^  \d (\w+) +([\d,]+) ", demo.output(), re.MULTILINE)
    assert printed == [(step["value"], f"{step['count']:,}") for step in steps]


def test_it_shows_progress_without_a_terminal(demo):
    lines = re.findall(r"^Sending: ([\d,]+) of ([\d,]+) events$", demo.output(), re.MULTILINE)
    assert len(lines) >= 2
    assert lines[-1][0] == lines[-1][1]


def test_its_journeys_have_data_quality_problems_of_real_ones(demo):
    _, results = checkout(demo)
    total, quality = results["aggregate"], results["dataQuality"]
    assert total["entered"] > 1500
    for name in ("completed", "pending", "droppedOff"):
        assert total[name] > 50
    assert total["diagnostics"][0]["units"] > 50
    for name in ("sequenceSkips", "unorderedTies"):
        assert quality[name] > 0
    assert quality["unknownEntryValues"]["variant"] > 0
    assert quality["conflictingEntryValues"]["plan"] > 0
    cohorts = [cohort["cohort"] for cohort in results["cohorts"]["data"]]
    assert {"variant": None, "plan": "basic"} in cohorts


def exported_lines(demo):
    """The lines of all exported events."""
    for website in demo.client.get("/api/settings/websites").json()["data"]:
        query = {"websiteId": website["id"], "table": "events"}
        for day in demo.client.get("/api/exports/days", params=query).json()["data"]:
            of_day = {**query, "day": day["day"], "format": "ndjson"}
            file = demo.client.get("/api/exports/day", params=of_day)
            assert file.status_code == 200, file.text
            yield from file.text.splitlines()


def milliseconds(time):
    return round(datetime.fromisoformat(time).timestamp() * 1000)


@pytest.fixture(scope="module")
def attempts_by_hand(demo):
    """The attempts of the checkout, followed by hand from all exported events."""
    by_attempt = counted_by_hand.steps_by_attempt(exported_lines(demo))
    return [attempt for attempt in map(counted_by_hand.follow, by_attempt) if attempt]


@pytest.mark.parametrize("days", [None, 14, 7])
def test_its_settled_figures_are_those_counted_by_hand_from_its_events(
    demo, attempts_by_hand, days
):
    funnel_ids, _ = checkout(demo)
    end = datetime.now(UTC)
    start = datetime.fromtimestamp(0, UTC) if days is None else end - timedelta(days=days)
    period = {} if days is None else {"startAt": start.isoformat(), "endAt": end.isoformat()}
    path = f"/api/funnels/{funnel_ids['Checkout']}/results"
    report = demo.client.get(path, params=period).json()
    attempts = [
        attempt
        for attempt in attempts_by_hand
        if start <= datetime.fromtimestamp(attempt.entered_at_ms / 1000, UTC) < end
    ]
    total = report["aggregate"]
    by_hand = counted_by_hand.figures(attempts, milliseconds(report["evaluatedAt"]))
    shown = {name: total.get(name) for name in by_hand} | {
        "reached": [step["count"] for step in total["steps"]],
        "settledReached": [step["settled"] for step in total["steps"]],
    }
    assert shown == by_hand
    if days is None:
        documented = re.findall(r"^\| `(\w+)` \| ([\d,.]+) \|", START.read_text("utf-8"), re.M)
        assert documented == [(name, f"{by_hand[name]:,}") for name, _ in documented]
        assert {"settled", "settledRate", "pending", "earlyCompletions"} <= dict(documented).keys()


def test_visitors_complete_the_second_funnel_of_the_demo(demo):
    funnel_ids, _ = checkout(demo)
    funnel_id = funnel_ids["From the home page to a purchase"]
    results = demo.client.get(f"/api/funnels/{funnel_id}/results").json()
    counts = [step["count"] for step in results["aggregate"]["steps"]]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] > 100


def test_its_page_views_have_sessions(demo):
    pages = ("/", "/products/*", "/cart")
    answer = demo.client.post(
        "/api/funnels/preview",
        json={
            "countingUnit": "attempt",
            "attemptProperties": ["$session"],
            "conversionWindowSeconds": 86_400,
            "steps": [{"type": "Pageview", "value": page} for page in pages],
        },
    )
    counts = [step["count"] for step in answer.raise_for_status().json()["aggregate"]["steps"]]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 2_000
    assert counts[-1] > 500


def test_its_login_works(demo):
    with logged_in(demo) as browser:
        assert browser.get("/api/auth/session").status_code == 200


@pytest.mark.usefixtures("starts_service")
def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "note.txt").write_text("mine", "utf-8")
    error = error_of(penstock("demo", "--port", "0", "--data", str(tmp_path)))
    assert error == f"penstock: {tmp_path} is not empty; the demo needs a new or empty folder\n"
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]
