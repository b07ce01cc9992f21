"""The report of a funnel: the API's numbers, an address that restores it, errors in its parts."""

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import confirm
from tests.browser.watching import HeldRequests, assert_accessible, assert_fits
from tests.cases import cases, full_except
from tests.records import create, event_steps, new_key, send_events
from tests.waiting import eventually

STEPS = event_steps("begun", "paid")


@pytest.fixture
def report(demo_page, demo):
    """Opens the demo's checkout funnel with query parameters, and waits for all parts."""

    def opened(query="", path=""):
        demo_page.goto(f"/funnels/{demo.ids['funnel']}{path}?timezone=Europe/Berlin&{query}")
        loaded(demo_page)
        return demo_page

    return opened


@pytest.fixture
def api(demo, page):
    """The API's response for a part of the page, by the curl command that the page offers."""

    def fetch(part):
        line = page.locator(f"{part} [data-copy]").last.get_attribute("data-copy")
        path = re.search(r"'(http[^']+)'$", line)[1].removeprefix(demo.url)
        answer = demo.service.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return fetch


def loaded(page):
    page.wait_for_load_state()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def opened(page, address):
    """Open a report and wait for all parts."""
    page.goto(address)
    loaded(page)


def follow(page, link):
    """Follow a link and wait for all parts."""
    link.click()
    loaded(page)


def number(locator):
    """The number of a cell, as the server wrote it."""
    return float(locator.locator("data").first.get_attribute("value"))


def expect_sorted(page, column, order):
    heading = page.get_by_role("columnheader", name=column)
    expect(heading).to_have_attribute("aria-sort", order)


def query_of(page):
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


@pytest.fixture
def own(signed_in, account, website):
    """Creates a funnel and returns its ID. Stories: pairs of event names and properties."""

    def create_funnel(stories=(), steps=STEPS, **more):
        client = account.client
        events = [
            {
                "websiteId": website,
                "userId": f"u{at}",
                "event": name,
                "properties": properties,
                "timestamp": 1_780_000_000_000 + at * 1000 + n,
            }
            for at, (names, properties) in enumerate(stories)
            for n, name in enumerate(names)
        ]
        if events:
            send_events(client, events, new_key(client))
        body = {"name": "Own", "steps": steps, "conversionWindowSeconds": 3600, **more}
        return create(client, "/api/funnels", body)["id"]

    return create_funnel


def test_the_verdict_is_that_of_the_api_and_links_to_what_shows_it(report, api, demo):
    page = report()
    query = api("#overview")["period"]
    answer = demo.service.client.get(
        f"/api/funnels/{demo.ids['funnel']}/verdict",
        params={"startAt": query["startAt"], "endAt": query["endAt"]},
    ).json()
    verdict = page.locator("#verdict")
    for sentence in answer["sentences"][1:]:  # the rate stands beside them
        expect(verdict).to_contain_text(sentence["text"])
    badge = page.get_by_text("Largest loss", exact=True)
    expect(badge).to_have_count(1)
    expect(
        page.locator(f"#step-{answer['largestLoss']}").get_by_text("Largest loss")
    ).to_be_visible()
    verdict.get_by_text("better than").click()
    loaded(page)
    expect(page.locator("#tab-compare")).to_have_attribute("aria-current", "page")
    assert query_of(page)["show"] == "compare"
    verdict.get_by_text("uncertain event order").click()
    assert query_of(page)["quality"] == "orderingIssue"


@cases("bars", full_except(["overall"], ["overall", "steps"], "the other scale"))
def test_the_numbers_are_those_of_the_api(report, api, bars):
    page = report(f"bars={bars}")
    expected = api("#overview")["aggregate"]
    assert number(page.locator("#entered")) == expected["entered"] > 0
    early = expected["earlyCompletions"]
    assert number(page.locator("#early")) == early
    assert number(page.locator(".headline .counts")) == expected["completed"] - early
    assert round(number(page.locator("#rate")), 4) == expected["settledRate"]
    assert number(page.locator("#settled")) == expected["settled"]
    assert number(page.locator("#pending")) == expected["pending"]
    assert number(page.locator("#median")) == pytest.approx(
        expected["medianCompletionMinutes"] * 60
    )
    page.get_by_text("View as table").first.click()
    rows = page.locator("#overview table tbody tr")
    for row, step in zip(rows.all(), expected["steps"], strict=True):
        cells = row.locator("td")
        assert number(cells.nth(0)) == step["count"]
        assert round(number(cells.nth(1)), 4) == step["settledFromStart"]
        assert number(cells.nth(4)) == step["pending"]
        assert number(cells.nth(5)) == step["droppedOff"]
        beside = page.locator(f"#step-{step['step']} .step-count")
        assert number(beside) == step["settled"]
    expect(rows.first.locator("td").nth(2)).to_have_text("–")
    second = page.locator("#step-2")
    options = second.locator(".options", has_text="Options")
    assert [int(data.get_attribute("value")) for data in options.locator("data").all()] == [
        option["count"] for option in expected["steps"][1]["options"]
    ]
    [row] = expected["diagnostics"]
    expect(page.locator("#step-3 .diagnostic")).to_contain_text(row["value"])
    expect(page.locator("#step-3 .diagnostic")).to_contain_text(row["where"])
    assert number(page.locator("#step-3 .diagnostic")) == row["units"]


def shares_of_bars(page, step):
    """The widths of a step's bars by the name of their cohort, as shares."""
    bars = page.locator(f"#step-{step} .segment-bar")
    return {
        bar.get_attribute("title").partition(":")[0]: float(
            bar.locator("rect").get_attribute("width").rstrip("%")
        )
        / 100
        for bar in bars.all()
    }


def test_the_boxes_of_cohorts_choose_their_bars_whose_colours_stay(report, api, page):
    report("show=cohorts&breakdown=plan")
    cohorts = {row["label"]["plan"]: row for row in api("#detail")["cohorts"]["data"]}
    expected = {name: cohort["steps"][1]["settledFromStart"] for name, cohort in cohorts.items()}
    assert shares_of_bars(page, 2) == pytest.approx(expected, abs=0.0001)
    first, second = list(cohorts)[:2]
    colour = page.locator(f'.segment-bar[title^="{second}"] rect').first
    before = colour.get_attribute("class")
    page.get_by_label(f"Show the bars of {first}").uncheck()
    expect(page.locator("#step-2 .segment-bar")).to_have_count(len(expected) - 1)
    del expected[first]
    assert shares_of_bars(page, 2) == pytest.approx(expected, abs=0.0001)
    page.reload()
    loaded(page)
    assert shares_of_bars(page, 2) == pytest.approx(expected, abs=0.0001)
    assert colour.get_attribute("class") == before
    expect(page.get_by_label(f"Show the bars of {first}")).not_to_be_checked()
    page.locator(f'#step-2 .segment-bar[title^="{second}"]').click()
    assert json.loads(query_of(page)["cohort"]) == {"plan": second}
    assert query_of(page)["step"] == "2"


def test_bars_add_up_to_the_whole_and_show_pending_units(report, api):
    page = report("bars=steps&breakdown=")
    steps = api("#overview")["aggregate"]["steps"]
    widths = {
        rect.get_attribute("class"): float(rect.get_attribute("width").rstrip("%"))
        for rect in page.locator("#step-2 .bar rect").all()
    }
    before = steps[0]["count"]
    assert widths["reached"] == pytest.approx(100 * steps[1]["count"] / before, abs=0.01)
    assert widths["pending"] == pytest.approx(100 * steps[0]["pending"] / before, abs=0.01)
    assert widths["dropped"] == pytest.approx(100 * steps[0]["droppedOff"] / before, abs=0.01)
    assert sum(widths.values()) == pytest.approx(100, abs=0.01)
    page.get_by_role("link", name="Compare each step with the first").click()
    expect(page.locator("#step-4 .bar .reached")).to_have_attribute(
        "width", f"{100 * steps[3]['count'] / before:.4f}%"
    )
    expect(page).to_have_url(re.compile("bars=overall"))


@pytest.mark.full("other parameters of an address")
@pytest.mark.slow("loads the report again and again")
def test_the_address_restores_period_filter_page_and_sorting(report, api, page):
    report(
        'period=90d&show=cohorts&sort=settledRate&order=asc&pageSize=2&page=2&cohort={"plan":"basic"}'
    )
    cohorts = api("#detail")["cohorts"]
    assert (cohorts["total"], cohorts["page"]) == (3, 2)
    rows = page.locator("#detail tbody tr")
    assert [number(row.locator("td").nth(3)) for row in rows.all()] == [
        cohort["entered"] for cohort in cohorts["data"]
    ]
    expect(page.locator("summary", has_text="90 days")).to_be_visible()
    expect_sorted(page, "Rate", "ascending")
    expect(page.locator(".chip")).to_have_text("plan: basic")
    page.get_by_role("link", name="Previous").click()
    expect(rows).to_have_count(2)
    first = [cohort["settledRate"] for cohort in api("#detail")["cohorts"]["data"]]
    assert first == sorted(first)
    page.get_by_role("link", name="Median time").click()
    expect_sorted(page, "Median time", "descending")
    page.reload()
    loaded(page)
    expect_sorted(page, "Median time", "descending")
    page.get_by_role("link", name="Remove the filter plan").click()
    expect(page).not_to_have_url(re.compile("[?&]cohort="))
    loaded(page)
    assert api("#detail")["cohorts"]["total"] == 9


def test_custom_days_are_those_of_the_time_zone(report, api, page):
    report("period=custom&start=2026-10-24&end=2026-10-26")
    assert api("#overview")["period"] == {
        "startAt": "2026-10-23T22:00:00.000Z",
        "endAt": "2026-10-26T23:00:00.000Z",
    }
    page.locator("summary", has_text="2026-10-24 to 2026-10-26").click()
    page.get_by_label("From", exact=True).fill("2026-11-01")
    page.get_by_label("To (inclusive)").fill("2026-11-02")
    page.get_by_role("button", name="Show").first.click()
    expect(page).to_have_url(re.compile("start=2026-11-01"))
    loaded(page)
    assert api("#overview")["period"] == {
        "startAt": "2026-10-31T23:00:00.000Z",
        "endAt": "2026-11-02T23:00:00.000Z",
    }


def test_without_a_time_zone_in_the_address_it_is_the_reader_s(demo_page, demo, api):
    demo_page.goto(f"/funnels/{demo.ids['funnel']}")
    loaded(demo_page)
    assert query_of(demo_page)["timezone"] == "Europe/Berlin"
    assert api("#overview")["period"]["startAt"].endswith(("T22:00:00.000Z", "T23:00:00.000Z"))


@cases(
    "show",
    full_except(
        ("trend", "next"),
        ("trend", "next", "times", "compare", "drivers", "flows", "quality", "otherTools"),
        "other parts",
    ),
)
def test_each_detail_shows_what_the_api_answers(report, api, page, show):
    report(f"show={show}&step=2")
    answer, table = api("#detail"), page.locator("#detail .table tbody tr")
    match show:
        case "trend":
            expect(page.locator("#trend svg.drawing")).to_be_visible()
            assert [row["entered"] for row in reversed(answer["data"])] == [
                int(number(row.locator("td").nth(1))) for row in table.all()
            ]
        case "times":
            assert [row["units"] for row in answer["overall"]["histogram"]] == [
                int(number(row.locator("td").nth(2))) for row in table.all()
            ]
        case "compare":
            assert [row["entered"] for row in answer["cohorts"]] == [
                int(number(row.locator("td").nth(1))) for row in table.all()
            ]
            expect(page.locator("#detail .summary")).to_have_text(answer["summary"])
            assert len(answer["warnings"]) == page.locator("#detail .notice").count()
        case "next":
            assert answer["step"] == 2
            counts = [*(row["units"] for row in answer["data"]), answer["silent"]]
            assert counts == [int(number(row.locator("td").nth(2))) for row in table.all()]
        case "drivers":
            clear = [row for row in answer["data"] if row["clear"]]
            shown = page.locator("#detail .drivers li:not(.scale)")
            assert [row["units"] for row in clear] == [
                int(row.locator(".shares data").nth(1).get_attribute("value"))
                for row in shown.all()
            ]
        case "flows":
            assert (answer["where"], answer["step"]) == ("after", 2)
            names = page.locator("#detail .flow > li > .flow-row .flow-name bdi")
            assert names.all_text_contents() == [branch["name"] for branch in answer["data"]]
        case "quality":
            skips = page.get_by_role("listitem").filter(has_text="skipped by sequence number")
            assert number(skips) == answer["dataQuality"]["sequenceSkips"]
        case "otherTools":
            like = answer["countLike"]
            expect(page.locator("#detail .summary")).to_have_text(" ".join(like["sentences"]))
            assert [reason["units"] for reason in like["reasons"]] == [
                int(number(row.locator("td").nth(1))) for row in table.all()
            ]


def test_what_differs_is_a_filter_to_click_and_leads_to_its_visitors(own, signed_in):
    stories = [
        (["begun", "waited", "paid"], {"plan": "pro"})
        if at % 2
        else (["begun", "failed"], {"plan": "basic"})
        for at in range(80)
    ]
    page = signed_in
    opened(page, f"/funnels/{own(stories)}?period=all&timezone=UTC&show=drivers")
    follow(page, page.locator("#detail .drivers").get_by_role("link", name="plan = basic"))
    expect(page.locator("#entered")).to_have_text("40")
    expect(page.locator(".headline .counts")).to_have_text("0 of 40 settled")
    assert json.loads(query_of(page)["filters"]) == [
        {"property": "plan", "operator": "equals", "value": "basic"}
    ]
    page.go_back()
    loaded(page)
    follow(page, page.locator("#detail .drivers").get_by_role("link", name="failed"))
    expect(page.locator("#list .pager")).to_contain_text("40 visitors.")
    follow(page, page.get_by_role("link", name="Remove the filter With failed soon after step 1"))
    expect(page.locator("#list .pager")).to_contain_text("80 visitors.")


def test_too_few_units_have_no_verdict_and_a_step_that_no_event_can_complete_is_named(
    own, signed_in
):
    steps = [*STEPS, {"type": "Event", "value": "absent"}]
    funnel = own([(["begun", "paid"], {})] * 5, steps)
    page = signed_in
    opened(page, f"/funnels/{funnel}?period=all&show=quality&timezone=UTC")
    expect(page.locator("#entered")).to_have_text("5")
    expect(page.locator("#verdict .drawing")).to_be_visible()  # only the trend
    expect(page.locator("#verdict p")).to_have_count(0)
    expect(page.locator("#tab-quality")).to_have_text("Data quality 1 problem")
    expect(page.locator("#detail .impossible")).to_have_text(
        "There are no events named absent, so step 3 can never be reached."
    )


def test_tabs_change_the_address_and_the_back_button_returns(report, page):
    report()
    page.get_by_role("link", name="Trend").click()
    expect(page.locator("#trend svg.drawing")).to_be_visible()
    page.get_by_role("link", name="Week", exact=True).click()
    expect(page.locator("#detail .switch").last.locator("[aria-current]")).to_have_text("Week")
    expect(page).to_have_url(re.compile("show=trend.*interval=week|interval=week.*show=trend"))
    page.go_back()
    loaded(page)
    expect(page.locator("#detail .switch").last.locator("[aria-current]")).to_have_text("Day")


def test_numbers_lead_to_the_units_behind_them(report, api, page):
    report("show=quality")
    problem = page.get_by_role("listitem").filter(has_text="attempts with a later, different plan")
    count = number(problem)
    follow(page, problem.get_by_role("link"))
    assert api("#list")["total"] == count > 20
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "Attempts with a later, different value for plan"
    )
    first = page.locator("#list tbody tr").first.inner_text()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("link", name="First page")).to_be_visible()
    assert page.locator("#list tbody tr").first.inner_text() != first
    follow(page, page.get_by_role("link", name="Checkout"))
    page.locator("#step-1 summary").click()
    dropped = page.locator("#step-1 .leaves")
    count = number(dropped)
    follow(page, dropped.get_by_role("link").first)
    assert api("#list")["total"] == count


def test_unknown_stands_apart_from_the_text_and_values_keep_their_type(own, signed_in, watch):
    values = [{"plan": "Unknown"}, {}, {"plan": 5}, {"plan": "5"}, {"plan": True}, {"plan": ""}]
    funnel = own([(["begun"], value) for value in values], breakdownProperties=["plan"])
    opened(signed_in, f"/funnels/{funnel}?period=all&timezone=UTC")
    cells = signed_in.locator("#detail tbody td.main")
    expect(cells).to_have_count(6)
    assert set(cells.all_inner_texts()) == {"Unknown", "“Unknown”", "5", "“5”", "true", "“”"}
    follow(signed_in, signed_in.locator("#detail td.main a", has=signed_in.locator(".missing")))
    assert json.loads(query_of(signed_in)["cohort"]) == {"plan": None}
    expect(signed_in.locator(".chip .missing")).to_have_text("Unknown")
    expect(signed_in.locator("#entered")).to_have_text("1")
    assert_accessible(signed_in)


@pytest.mark.full("each tab of a report without entries")
def test_a_funnel_that_nobody_entered_has_dashes_and_says_so(own, signed_in, watch):
    opened(signed_in, f"/funnels/{own()}?timezone=UTC")
    expect(signed_in.locator("#entered")).to_have_text("0")
    expect(signed_in.locator("#rate")).to_have_text("–")
    expect(signed_in.get_by_text("No entries")).to_be_visible()
    expect(signed_in.locator("#step-2 .step-rate").first).to_contain_text("–")
    for tab in ("Times", "What came next", "Data quality", "Trend"):
        signed_in.locator("#detail .tabs").get_by_role("link", name=tab).click()
        expect(signed_in.locator("#detail [aria-current=page]")).to_have_text(tab)
    assert_accessible(signed_in)


def test_a_clicked_tab_is_marked_at_once_and_its_panel_says_that_it_loads(demo, demo_page):
    opened(demo_page, f"/funnels/{demo.ids['funnel']}?timezone=UTC")
    held = HeldRequests(demo_page, re.compile("show=times"))
    tab, panel = demo_page.locator("#tab-times"), demo_page.locator("#detail")
    tab.click()
    expect(panel.locator(".tabs [aria-current]")).to_have_attribute("id", "tab-times")
    note = panel.get_by_text("Loading “Times”…")
    expect(note).to_be_visible()
    held.release()
    expect(note).to_have_count(0)
    expect(panel.locator(".tabs [aria-current]")).to_have_attribute("id", "tab-times")


def test_every_menu_of_a_report_fits_its_window(demo, demo_page):
    opened(demo_page, f"/funnels/{demo.ids['funnel']}?timezone=UTC")
    for width in (390, 768, 1440):
        demo_page.set_viewport_size({"width": width, "height": 900})
        if width == 390:
            demo_page.get_by_role("button", name="30 days").click()
        for menu in demo_page.locator(".page-filters details.menu > summary").all():
            menu.click()
            body = demo_page.locator("details.menu[open] .menu-body")
            demo_page.wait_for_function(
                """() => {
                    const body = document.querySelector("details.menu[open] .menu-body");
                    const { left, right } = body?.getBoundingClientRect() ?? { left: -1 };
                    return left >= 0 && right <= innerWidth;
                }"""
            )
            expect(body).to_have_count(1)
            demo_page.keyboard.press("Escape")


def test_on_a_small_screen_one_line_opens_all_controls_of_a_report(report, page):
    page.set_viewport_size({"width": 390, "height": 844})
    report('compare=previous&period=settled&settled=true&cohort={"plan":"basic"}')
    line = page.get_by_role("button", name="settled days")
    expect(line).to_have_text("Last 7 settled days · Europe/Berlin · compared · 2 filters")
    controls = page.get_by_role("group", name="Period and filters")
    expect(controls).to_be_hidden()
    line.click()
    for text in ("Website or app", "Remove the filter plan"):
        expect(controls.get_by_label(text)).to_be_visible()
    for text in ("Last 7 settled days", "Compared with", "By", "Filter", "Window"):
        expect(controls.locator("summary", has_text=text).first).to_be_visible()
    assert_fits(page)
    assert_accessible(page)
    controls.locator("summary", has_text="settled days").click()
    follow(page, controls.get_by_role("link", name="90 days"))
    expect(page.get_by_role("button", name="90 days")).to_be_visible()


def test_on_a_small_screen_the_bars_begin_on_the_first_screen(report, page):
    page.set_viewport_size({"width": 390, "height": 844})
    report()
    assert page.locator("#step-1 .bar").first.bounding_box()["y"] < 600


def test_the_cards_of_cohorts_have_their_values_as_the_title(report, page):
    page.set_viewport_size({"width": 390, "height": 844})
    report("show=cohorts")
    first, second = (cell.bounding_box() for cell in page.locator("td.main").all()[:2])
    assert abs(first["y"] - second["y"]) < 4
    mark = "(cell) => getComputedStyle(cell, '::before').content"
    assert page.locator("td.main").nth(1).evaluate(mark) == '"· "'


def test_ten_stops_lead_from_the_start_of_a_report_to_what_it_says(report, page):
    report()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the report")).to_be_focused()
    page.get_by_role("link", name="Skip to content").press("Enter")
    is_in_report = "Boolean(document.activeElement.closest('main > .stack'))"
    stops = 0
    while not page.evaluate(is_in_report):
        page.keyboard.press("Tab")
        stops += 1
    assert stops <= 10
    page.get_by_role("link", name="Skip to the report").press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(is_in_report)


PAPER_PX = 703
"""Width of a page of A4 without its margins (static/print.css)."""


def test_a_report_prints_in_light_colours_without_controls_and_cuts_no_table(report, page):
    page.set_viewport_size({"width": PAPER_PX, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    report("show=trend")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".controls-line")).to_have_text("30 days · Europe/Berlin")
    for shown in ("#verdict", "#step-1 .bar", "#steps-table table", "#detail table"):
        expect(page.locator(shown).first).to_be_visible()
    expect(page.locator(".button").filter(visible=True)).to_have_count(1)  # the line
    assert page.get_by_role("navigation").filter(visible=True).inner_text().strip() == "Trend"
    colour = page.locator("body").evaluate("(body) => getComputedStyle(body).color")
    assert colour == "rgb(23, 32, 43)"
    cut = """() => [...document.querySelectorAll("main :is(table, .scroll)")]
        .filter((each) => each.getBoundingClientRect().right > innerWidth
            || each.scrollHeight > each.clientHeight + 1).map((each) => each.className)"""
    assert page.evaluate(cut) == []


def test_menus_ask_a_question_that_the_address_restores_and_the_builder_saves(
    own, signed_in, watch
):
    stories = [(("begun", "paid"), {"plan": "pro"}), (("begun",), {"plan": "x"})]
    funnel = own(stories)
    opened(signed_in, f"/funnels/{funnel}?timezone=UTC&period=all")
    signed_in.locator("summary", has_text="Filter").click()
    form = signed_in.locator("[data-asks=filters]")
    form.get_by_label("Property", exact=True).fill("plan")
    form.get_by_label("Value", exact=True).fill("pro")
    form.get_by_label("Value", exact=True).press("Enter")
    expect(signed_in).to_have_url(re.compile("[?&]filters="))
    loaded(signed_in)
    assert json.loads(query_of(signed_in)["filters"]) == [
        {"property": "plan", "operator": "equals", "value": "pro"}
    ]
    expect(signed_in.locator(".chips")).to_contain_text("plan equals pro")
    signed_in.locator("summary", has_text="Break down").click()
    assert_accessible(signed_in)
    form = signed_in.locator("[data-asks=breakdown]")
    form.get_by_label("Property 1").fill("plan")
    form.get_by_label("Property 2").fill("a, b")
    form.get_by_label("Property 2").press("Enter")
    expect(signed_in).to_have_url(re.compile("[?&]breakdown="))
    loaded(signed_in)
    assert query_of(signed_in)["breakdown"] == 'plan,"a, b"'
    signed_in.locator("summary", has_text="Window").click()
    signed_in.get_by_label("Conversion window").fill("30m")
    signed_in.get_by_label("Conversion window").press("Enter")
    expect(signed_in).to_have_url(re.compile("[?&]window="))
    loaded(signed_in)
    signed_in.reload()
    loaded(signed_in)
    expect(signed_in.locator("summary", has_text="Window")).to_contain_text("30 minutes")
    expect(signed_in.locator("#step-1")).to_contain_text("1")
    signed_in.get_by_role("link", name="Save", exact=True).click()
    expect(signed_in.locator(".breakdown input")).to_have_count(2)


def test_an_older_revision_can_be_looked_at(own, signed_in, account):
    funnel = own()
    later = [*STEPS, {"type": "Event", "value": "thanked"}]
    body = {"name": "Own", "steps": later, "conversionWindowSeconds": 3600}
    account.client.put(f"/api/funnels/{funnel}", json=body).raise_for_status()
    opened(signed_in, f"/funnels/{funnel}?timezone=UTC")
    expect(signed_in.locator(".step")).to_have_count(3)
    signed_in.get_by_text("Revision 2", exact=True).click()
    expect(signed_in.get_by_text("Step 3 added after step 2: Event thanked")).to_be_visible()
    follow(signed_in, signed_in.get_by_role("link", name="Revision 1"))
    expect(signed_in.locator(".step")).to_have_count(2)
    expect(signed_in.get_by_text("This is an earlier revision.")).to_be_visible()


def test_a_refused_part_says_why_and_the_rest_of_the_page_stays(report, page):
    report('cohort={"nothing":1}')
    overview = page.locator("#overview")
    expect(overview).to_contain_text("breakdown")
    expect(overview.get_by_role("button", name="Try again")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Checkout")
    follow(page, page.get_by_role("link", name="Remove the filter nothing"))
    expect(page.locator("#step-1")).to_be_visible()


def test_a_report_that_nothing_changed_comes_in_one_request_from_the_list_too(
    own, signed_in, watch
):
    funnel = own([(["begun", "paid"], {"plan": "pro"})], breakdownProperties=["plan"])
    signed_in.goto(f"/funnels/{funnel}")  # in the reader's time zone
    loaded(signed_in)
    signed_in.goto("/funnels")
    loaded(signed_in)
    requests = []
    signed_in.on("request", lambda request: requests.append(request.url))
    signed_in.get_by_role("link", name="Own", exact=True).click()
    expect(signed_in.locator("#entered")).to_be_visible()
    loaded(signed_in)
    assert [urlsplit(url).path for url in requests if "/static/" not in url] == [
        f"/funnels/{funnel}"
    ]
    zone = signed_in.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
    assert query_of(signed_in)["timezone"] == zone
    signed_in.get_by_role("link", name="Trend").click()
    expect(signed_in.locator("#trend svg.drawing")).to_be_visible()
    signed_in.reload()
    expect(signed_in.locator("#trend svg.drawing")).to_be_visible()


def test_a_part_whose_answer_never_came_can_be_tried_again(report, page, watch):
    page.route(
        "**/funnels/**",
        lambda route: (
            route.abort()
            if route.request.headers.get("hx-target") == "overview"
            else route.continue_()
        ),
    )
    report("startAt=1780000000000&endAt=1780000001000")  # no other test has these figures cached
    overview = page.locator("#overview")
    expect(overview.get_by_role("heading", name="This part could not be loaded")).to_be_visible()
    assert_accessible(page)
    page.unroute("**/funnels/**")
    overview.get_by_role("button", name="Try again").click()
    expect(page.locator("#step-1")).to_be_visible()
    watch.allow("Failed to load")
    watch.allow("htmx:")


def test_the_keyboard_alone_filters_sorts_and_reads(report, page):
    report()
    page.locator("summary", has_text="30 days").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("From", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_label("From", exact=True)).to_be_hidden()
    page.get_by_role("link", name="Completed", exact=True).focus()
    page.keyboard.press("Enter")
    expect_sorted(page, "Completed", "descending")
    page.locator("#detail td.main a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".chip")).to_be_visible()
    loaded(page)
    page.get_by_role("link", name="Data quality").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".issues")).to_be_visible()


@pytest.mark.full("other widths")
def test_tables_end_with_the_figures_and_words_do_not_break(report, page):
    report("show=cohorts")
    page.set_viewport_size({"width": 1440, "height": 900})
    bar = page.locator("#step-1 .step-figures").bounding_box()
    cell = page.locator("#detail thead th").last.evaluate(
        "(cell) => cell.getBoundingClientRect().right"
        " - parseFloat(getComputedStyle(cell).paddingRight)"
    )
    assert cell == pytest.approx(bar["x"] + bar["width"], abs=1)
    page.set_viewport_size({"width": 768, "height": 900})
    value = page.locator("#detail td.main a", has_text="business").first
    assert value.evaluate("(link) => link.getClientRects().length") == 1
    page.set_viewport_size({"width": 390, "height": 900})
    rate = page.get_by_role("columnheader", name="Rate").bounding_box()
    assert rate["x"] + rate["width"] <= 390
    report("show=times")
    times = page.locator("#detail .histogram tbody td:first-child")
    assert {line.bounding_box()["height"] < 45 for line in times.all()} == {True}


@pytest.mark.full("another width")
def test_short_texts_of_tables_do_not_break_on_tablets(report, page):
    def lines(locator):
        return locator.evaluate(
            "(element) => { const text = document.createRange(); text.selectNodeContents(element);"
            " return new Set([...text.getClientRects()].map(({ y }) => Math.round(y))).size; }"
        )

    page.set_viewport_size({"width": 768, "height": 900})
    report("step=2&outcome=droppedOff", path="/units")
    assert lines(page.locator("td[data-label=Reached]").first) == 1
    page.goto("/settings/audit-log")
    assert lines(page.locator("td.address", has_text="demo@example.com").first) == 1
    assert lines(page.locator("td.time time").first) == 2


@pytest.mark.full("other widths")
def test_a_toast_covers_no_figures_and_not_the_account(report, page):
    report()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for width in (1440, 768, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.locator("#overview").get_by_text("Export", exact=True).click()
        page.locator("#overview").get_by_role("button", name="API call").click()
        page.mouse.wheel(0, -10_000)
        toast, main = (
            page.locator(".toast").first.bounding_box(),
            page.locator("main").bounding_box(),
        )
        beside = toast["x"] + toast["width"] <= main["x"]
        assert beside or toast["y"] + toast["height"] <= 56, (
            width
        )  # the bar on top of small screens
        if width == 1440:
            account = page.locator(".side .who").bounding_box()
            assert toast["y"] + toast["height"] <= account["y"]
        page.locator(".toast").first.click()
        expect(page.locator(".toast")).to_have_count(0)


def test_export_and_call_are_of_what_is_shown(report, page):
    report('period=7d&cohort={"plan":"basic"}')
    with page.expect_download() as download:
        page.locator("#overview").get_by_text("Export", exact=True).click()
        page.get_by_role("link", name="CSV").click()
    assert download.value.path().read_text().startswith('"row","variant","plan","entered"')
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#overview").get_by_role("button", name="API call").click()
    eventually(lambda: "curl" in page.evaluate("navigator.clipboard.readText()"))
    assert "%22plan%22" in page.evaluate("navigator.clipboard.readText()")


def test_a_tab_opened_by_keyboard_keeps_the_focus(report):
    page = report()
    tab = page.get_by_role("navigation", name="Details").get_by_role("link", name="Trend")
    tab.focus()
    page.keyboard.press("Enter")
    expect(tab).to_have_attribute("aria-current", "page")
    expect(tab).to_be_focused()


@pytest.mark.full("tests/web/test_row_names.py has the same without a browser")
def test_a_step_with_options_is_titled_by_all_of_them(signed_in, own):
    options = [{"type": "Event", "value": f"way_{n}"} for n in range(4)]
    group = {**STEPS[1], "mode": "all_of", "or": [{"type": "Event", "value": "posted"}]}
    steps = [{**STEPS[0], "or": options[:1]}, {**options[0], "or": options[1:]}, group]
    funnel = own(steps=steps)
    opened(signed_in, f"/funnels/{funnel}")
    titles = signed_in.locator(".bars h2 bdi")
    assert titles.all_text_contents() == [
        "begun or way_0",
        "way_0 or way_1 or way_2 or 1 more",
        "paid and posted",
    ]


@pytest.mark.full("another width")
@pytest.mark.parametrize("show", ["times", "next&step=1"])
def test_on_a_phone_a_bar_has_its_own_line_below_its_label(report, page, show):
    page.set_viewport_size({"width": 390, "height": 900})
    report(f"show={show}")
    row = page.locator("table.histogram tbody tr").first
    label, bar = row.locator("td").first.bounding_box(), row.locator("svg.bar").bounding_box()
    assert bar["width"] > 250
    assert bar["y"] >= label["y"] + label["height"] - 1
    table = page.locator(".scroll:has(.histogram)")
    assert table.evaluate("(element) => element.scrollWidth <= element.clientWidth")


def test_a_report_can_be_shared_duplicated_and_deleted(own, signed_in, account):
    funnel = own([(["started", "paid"], {})])
    page = signed_in
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/funnels/{funnel}?timezone=UTC")
    page.get_by_role("link", name="Trend").click()
    expect(page).to_have_url(re.compile("show=trend"))
    more = page.get_by_label("More")
    more.click()
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.get_by_role("link", name="Duplicate").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Copy of Own")
    page.go_back()
    more.click()
    page.get_by_role("button", name="Delete").click()
    confirm(page, "Delete")
    expect(page).to_have_url(re.compile("/funnels$"))
    assert account.client.get("/api/funnels").json()["total"] == 0


def test_each_large_cohort_is_a_line_of_the_trend(report, page, demo):
    report("show=trend")
    page.get_by_role("group", name="Measure").get_by_role("link", name="Cohorts").click()
    expect(page).to_have_url(re.compile("measure=cohorts"))
    expect(page.locator("#trend .chart-key")).to_have_count(6)
    lines = json.loads(page.locator("#trend").get_attribute("data-chart"))["series"]
    call = page.locator("#detail [data-copy]").last.get_attribute("data-copy")
    query = parse_qs(urlsplit(re.search(r"'(http[^']+)'$", call)[1]).query)
    parameters = {name: query[name][0] for name in ("startAt", "endAt", "timezone")}
    client, path = demo.service.client, f"/api/funnels/{demo.ids['funnel']}"
    period = {name: parameters[name] for name in ("startAt", "endAt")}
    cohorts = {
        ", ".join(value or "Unknown" for value in cohort["cohort"].values()): cohort
        for cohort in client.get(
            f"{path}/results", params=period | {"pageSize": 100, "sort": "entered"}
        ).json()["cohorts"]["data"]
    }
    shown = [cohorts.pop(line["label"]) for line in lines]
    assert min(cohort["entered"] for cohort in shown) >= max(
        cohort["entered"] for cohort in cohorts.values()
    )
    for line, cohort in zip(lines, shown, strict=True):
        own = {"cohort": json.dumps(cohort["cohort"])}
        trend = client.get(f"{path}/trend", params=parameters | own).json()["data"]
        rates = [bucket["conversionRate"] for bucket in trend if not bucket["maturing"]]
        assert [round(rate, 4) for rate in line["values"] if rate is not None] == [
            rate for rate in rates if rate is not None
        ]


def test_filters_keep_the_tab_that_was_chosen_on_the_page(report, page):
    report()
    page.locator("#tab-trend").click()
    expect(page).to_have_url(re.compile("show=trend"))
    page.locator("#detail").get_by_role("link", name="Week").click()
    expect(page).to_have_url(re.compile("interval=week"))
    menu = page.locator("summary[title='Period and time zone']")
    menu.click()
    follow(page, page.get_by_role("link", name="90 days"))
    assert query_of(page) | {"timezone": ""} == {
        "timezone": "",
        "period": "90d",
        "show": "trend",
        "interval": "week",
    }
    page.locator("#tab-times").click()
    expect(page).to_have_url(re.compile("show=times"))
    menu.click()
    page.get_by_role("button", name="Show", exact=True).first.click()
    loaded(page)
    assert query_of(page)["show"] == "times"
    expect(page.locator("#tab-times")).to_have_attribute("aria-current", "page")
    report("show=cohorts&breakdown=plan")
    page.get_by_label("Show the bars of").first.uncheck()
    expect(page).to_have_url(re.compile("picked="))
    page.locator("#tab-trend").click()
    expect(page).to_have_url(re.compile("show=trend"))
    assert "picked" in query_of(page)


def use_copy_menu(page, card, item):
    page.locator(f"{card} .copy-menu summary").click()
    page.locator(card).get_by_role("button", name=item).click()


def saved(page, card, ending):
    """Save a card as a file, and return its name and content."""
    with page.expect_download() as download:
        use_copy_menu(page, card, f"Save as {ending}")
    return download.value.suggested_filename, download.value.path().read_bytes()


def test_a_card_is_copied_as_a_table_and_saved_as_a_picture(report, page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.emulate_media(color_scheme="dark")
    report("show=trend")
    name, picture = saved(page, "#detail", "SVG")
    assert name == "checkout-trend.svg"
    texts = " ".join(re.findall(r"<text[^>]*>([^<]+)</text>", picture.decode()))
    for expected in ("Checkout: trend", "All websites and apps", "Europe/Berlin", "Day of entry"):
        assert expected in texts
    assert "View as table" not in texts
    assert "rgb(23, 29, 37)" in picture.decode(), "the card of the dark theme"
    name, picture = saved(page, "#detail", "PNG")
    assert (name, picture[:4]) == ("checkout-trend.png", b"\x89PNG")
    assert len(picture) > 5000
    use_copy_menu(page, "#detail", "Copy picture")
    expect(page.get_by_text("Copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.read().then(([item]) => item.types)") == ["image/png"]
    page.get_by_text("Copied.").click()
    use_copy_menu(page, "#detail", "Copy table")
    expect(page.get_by_text("Copied.")).to_be_visible()
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].startswith("From\tEntered\tCompleted\t")
    assert len(lines) == 31


CARD_TABLES = {
    "cohorts": "variant,plan,Entered",
    "times": "Time,Attempts,Share",
    "next": "Event,Attempts,Share",
    "drivers": "What differs,Difference,From,To",
    "flows": "Level,Event,Type,Attempts,Share",
    "quality": "Problem,Number",
    "otherTools": "Rule of PostHog,Attempts,Only there,Only here",
}


@pytest.mark.parametrize("tab", full_except(["drivers"], CARD_TABLES, "each tab"))
def test_each_tab_is_saved_as_a_picture_and_a_table(report, page, tab):
    report(f"show={tab}")
    _, table = saved(page, "#detail", "CSV")
    head, *rows = table.decode().splitlines()
    assert head.startswith(CARD_TABLES[tab])
    assert rows
    _, picture = saved(page, "#detail", "SVG")
    assert "Checkout" in picture.decode()


@pytest.mark.full("another menu of a report")
def test_a_report_is_compared_from_its_menu(report, api, page):
    report("period=settled")
    page.get_by_text("Compare", exact=True).first.click()
    follow(page, page.get_by_role("link", name="Previous period"))
    assert query_of(page)["compare"] == "previous"
    expect(page.locator("#compared")).to_contain_text("Compared with")
    summary = api("#overview")["summary"]
    change = re.search(r"([\d.]+ points (?:up|down)|not clearly different)", summary)[1]
    expect(page.locator("#verdict")).to_contain_text(re.compile(change, re.IGNORECASE))
    expect(page.locator("#step-2 .mark").first).to_be_attached()
    assert_accessible(page)
    page.get_by_text("Compare", exact=True).first.click()
    follow(page, page.get_by_role("link", name="Do not compare"))
    expect(page.locator("#compared")).to_have_count(0)


@pytest.mark.full("another width")
def test_on_a_small_screen_compared_figures_are_side_by_side(report):
    report_page = report("period=settled&compare=previous&show=compare")
    report_page.set_viewport_size({"width": 390, "height": 900})
    for row, labels in (
        ("#detail .compared tr:nth-child(2)", ("Conversion rate", "Difference", "Corrected p")),
    ):
        cells = report_page.locator(row).first
        boxes = [cells.locator(f'[data-label="{label}"]').first for label in labels]
        tops = [box.bounding_box()["y"] for box in boxes]
        assert max(tops) - min(tops) <= 1
    assert_fits(report_page)
    assert_accessible(report_page)


def test_forecasts_are_drawn_once_they_are_made(report, page):
    report("period=7d&breakdown=&show=trend")
    for whisker in page.locator(".whisker").all():
        assert whisker.get_attribute("aria-label").startswith("Forecast: about ")
    bar, point = (
        page.locator(f"#step-4 {part}").first.bounding_box() for part in (".pending", "circle")
    )
    middle = point["x"] + point["width"] / 2
    assert bar["x"] - 1 <= middle <= bar["x"] + bar["width"] + 1
    expect(page.locator("#trend .chart-key", has_text="Forecast")).to_be_visible()
    follow(page, page.locator("#forecast").get_by_role("link"))
    expect(page.get_by_role("heading", name="How earlier forecasts did")).to_be_visible()
    assert_fits(page)
