"""The funnel builder: by mouse and by keyboard, with preview and errors, saved and changed."""

import json
import re
from datetime import UTC, datetime, timedelta
from time import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import create_account, new_email, sign_in
from tests.browser.hostile import HOSTILE, TURNING
from tests.browser.watching import HeldRequests, assert_accessible, assert_fits, assert_fits_at
from tests.cases import full_except
from tests.other_programs import run_program
from tests.records import create, event_steps, new_key, new_website, send_events, track
from tests.waiting import eventually

FUNNEL = {
    "name": "Checkout",
    "breakdownProperties": ["plan"],
    "steps": event_steps("started", "paid"),
}

EVERY = {"started": 1, "cart_filled": 2, "wish_made": 3, "payment_failed": 8, "paid": 4}
"""Which users send an event: every so many."""


def filled(account):
    """Forty users start; every second fills the cart, every fourth pays; five payments fail."""
    website = new_website(account.client)
    began = datetime.now(UTC) - timedelta(hours=2)
    events = [
        {
            "websiteId": website,
            "userId": f"user {number}",
            "event": event,
            "timestamp": (began + timedelta(minutes=at)).isoformat(),
            "properties": {"plan": "pro" if number % 2 else "basic", "price": number},
        }
        for at, (event, every) in enumerate(EVERY.items())
        for number in range(40)
        if number % every == 0
    ]
    send_events(account.client, events, new_key(account.client))
    return account


@pytest.fixture(scope="module")
def shop(shared_service):
    """A workspace with the events of `filled`. Tests share it, and may save funnels and goals."""
    account = filled(create_account(shared_service.url, new_email("ann")))
    yield account
    account.client.close()


@pytest.fixture
def builder(shop, page, watch):
    """A page whose previews of an unfinished funnel may be refused."""
    sign_in(page.context, shop.url, shop.client.cookies["service_session"])
    yield page
    watch.allow("422")
    for records in ("funnels", "goals"):
        for record in shop.client.get(f"/api/{records}").json()["data"]:
            shop.client.delete(f"/api/{records}/{record['id']}").raise_for_status()


@pytest.fixture
def form(builder):
    """The builder with the form of a new funnel."""
    builder.goto("/funnels/new")
    return builder


@pytest.fixture
def own_shop(account):
    """As `shop`, for a test that stores more events."""
    return filled(account)


@pytest.fixture
def own_builder(own_shop, signed_in, watch):
    yield signed_in
    watch.allow("422")


def step(page: Page, number: int):
    return page.get_by_role("group", name=f"Step {number}", exact=True)


def opened(row):
    """Open the details of a step: its filters, options and switches."""
    details = row.get_by_role("button", name="More options")
    if details.get_attribute("aria-expanded") == "false":
        details.click()
    return row


def definition(page: Page):
    return json.loads(page.locator("#definition-json").text_content())


SAVED = re.compile(r"/funnels/fun_\w+(\?|$)")
"""Address of the report that follows when a funnel was saved."""


def fill_steps(page: Page, *values: str):
    """Fill in the values of the first steps."""
    for number, value in enumerate(values, start=1):
        step(page, number).get_by_label("Value").fill(value)


def save(page: Page):
    """Save a new funnel and wait for its report."""
    page.get_by_role("button", name="Save funnel").click()
    expect(page).to_have_url(SAVED)


def edit(page: Page, service, definition):
    """Create a funnel, open it in the builder and return it."""
    funnel = create(service.client, "/api/funnels", definition)
    page.goto(f"/funnels/{funnel['id']}/edit")
    return funnel


def save_change(page: Page):
    """Save a funnel that is edited and wait for its report."""
    report = re.escape(page.url.removesuffix("/edit"))
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page).to_have_url(re.compile(rf"{report}(\?|$)"))


def preview(page: Page, sums: str):
    """Wait until the preview says so."""
    expect(page.locator("#preview [data-sums]")).to_have_text(re.compile(sums))
    expect(page.locator("#preview")).to_have_attribute("data-state", "shown")


def saved(service):
    [funnel] = service.client.get("/api/funnels").json()["data"]
    return {
        name: funnel[name]
        for name in (
            "name",
            "countingUnit",
            "breakdownProperties",
            "conversionWindowSeconds",
            "steps",
        )
    }


def match(value, *filters, kind="Event"):
    return {
        "type": kind,
        "value": value,
        "filters": [
            dict(zip(("property", "operator", "value"), condition, strict=True))
            for condition in filters
        ],
    }


def row(own, *others, mode=None, diagnostic=False):
    return {**own, "or": list(others), "mode": mode, "diagnostic": diagnostic}


EXPECTED = {
    "name": "From start to pay",
    "countingUnit": "visitor",
    "breakdownProperties": ["plan"],
    "conversionWindowSeconds": 86_400,
    "steps": [
        row(match("started", ("price", "between", "[0, 39]"))),
        row(match("cart_filled"), match("wish_made"), mode="all_of"),
        row(match("payment_failed"), diagnostic=True),
        row(match("paid"), match("wish_made")),
    ],
}


@pytest.mark.full("a longer funnel than others that are built by mouse")
@pytest.mark.slow("builds a whole funnel by mouse")
def test_a_funnel_is_built_by_mouse_and_its_preview_says_what_the_api_says(shop, form):
    form.get_by_label("Name", exact=True).fill(EXPECTED["name"])
    form.get_by_label("Conversion window").select_option("1 day")
    first = step(form, 1)
    first.get_by_label("Value").click()
    form.get_by_role("option", name="started 40").click()
    first.get_by_role("button", name="Add a filter").click()
    first.get_by_label("Property").fill("pri")
    form.get_by_role("option", name="price").click()
    first.get_by_label("Operator").select_option("is between")
    first.get_by_label("From").fill("0")
    first.get_by_label("To (inclusive)").fill("39")
    second = step(form, 2)
    second.get_by_label("Value").fill("cart_filled")
    opened(second).get_by_role("button", name="Add an option").click()
    second.get_by_label("Value").nth(1).fill("wish_made")
    second.get_by_label("Combine options").select_option("all of these, in any order")
    form.get_by_role("button", name="Add a step").click()
    third = step(form, 3)
    third.get_by_label("Value").fill("paid")
    opened(third).get_by_role("button", name="Add an option").click()
    third.get_by_label("Value").nth(1).fill("wish_made")
    form.get_by_role("button", name="Add a diagnostic row").click()
    form.get_by_role("group", name="Diagnostic after step 2").get_by_label("Value").fill(
        "payment_failed"
    )
    form.get_by_role("button", name="Add a property").click()
    form.get_by_placeholder("Property, such as plan").fill("plan")
    expect(form.locator("#counters")).to_be_hidden()
    preview(form, "40 visitors entered")
    assert_accessible(form)

    aggregate = shop.client.post(
        "/api/funnels/preview", json={**definition(form), "name": None}
    ).json()["aggregate"]
    shown = form.locator(".preview-steps li:not(.aside) strong").all_inner_texts()
    part = "settled" if aggregate["settled"] else "count"
    assert shown == [str(counted[part]) for counted in aggregate["steps"]]
    expect(form.locator(".preview-steps .aside")).to_contain_text(
        f"{aggregate['diagnostics'][0]['units']} visitors"
    )
    rate = aggregate["settledRate"]
    so_far = f"So far {aggregate['completed'] / (aggregate['entered'] - aggregate['excluded']):.1%}"
    expected = so_far if rate is None else f"{rate:.1%}"
    expect(form.locator("#preview [data-rate]")).to_have_text(expected)

    save(form)
    assert saved(shop) == EXPECTED


def exclusion(page: Page, number: int):
    return page.get_by_role("group", name="Exclusion", exact=True).nth(number - 1)


def exclude(page: Page, number: int, name: str, between: str | None = None):
    page.get_by_role("button", name="Exclude an event").click()
    exclusion(page, number).get_by_label("Value").fill(name)
    if between:
        exclusion(page, number).get_by_label("between").select_option(between)


def kinds(steps):
    """Return what each row is: its events, whether it excludes, and its strictness."""
    return [
        (
            [row["value"], *(option["value"] for option in row.get("or", []))],
            row.get("exclude", False),
            row.get("strict", False),
        )
        for row in steps
    ]


def test_order_and_exclusions_are_built_and_the_report_shows_who_was_excluded(shop, form):
    form.get_by_label("Name", exact=True).fill("Paid at once")
    form.get_by_role("button", name="Add a step").click()
    fill_steps(form, "started", "cart_filled", "paid")
    excludes = form.locator("#excludes")
    expect(excludes).to_be_hidden()
    form.get_by_label("Order").select_option("None of this funnel's events")
    expect(excludes).to_have_text("Excludes 0 of 40 visitors from all rates (last 30 days)")
    exclude(form, 1, "wish_made", "steps 2 and 3")
    expect(excludes).to_have_text("Excludes 7 of 40 visitors from all rates (last 30 days)")
    assert_accessible(form)
    assert_fits_at(form, 1440, 360)
    save(form)
    assert kinds(saved(shop)["steps"]) == [
        (["started"], False, False),
        (["cart_filled"], False, True),
        (["wish_made"], True, False),
        (["paid"], False, True),
    ]
    [funnel] = shop.client.get("/api/funnels").json()["data"]
    results = shop.client.get(f"/api/funnels/{funnel['id']}/results").json()["aggregate"]
    assert results["excluded"] == 7  # filled the cart, and made a wish before paying
    expect(form.locator("#excluded")).to_have_text(str(results["excluded"]))
    assert_accessible(form)
    form.locator("#excluded a").click()
    expect(form.get_by_role("heading", level=1)).to_have_text("Visitors who were excluded")


def test_a_funnel_allows_nothing_else_or_counts_in_any_order(shop, form):
    form.get_by_label("Name", exact=True).fill("Paid")
    fill_steps(form, "started", "paid")
    form.get_by_label("Order").select_option("Nothing else")
    assert kinds(definition(form)["steps"]) == [
        (["started"], False, False),
        (["paid"], False, "all"),
    ]
    form.get_by_label("Order").select_option("Any order")
    assert definition(form)["order"] == "any"
    expect(form.locator(".preview-steps li").nth(1)).to_contain_text("2 of 2 done")
    assert [strict for _, _, strict in kinds(definition(form)["steps"])] == [False, False]
    save(form)
    [funnel] = shop.client.get("/api/funnels").json()["data"]
    assert funnel["order"] == "any"
    expect(form.locator("#step-2 h2")).to_contain_text("2 of 2 done")
    form.get_by_role("link", name="Edit").click()
    expect(form.get_by_label("Order")).to_have_value("any")
    expect(form.get_by_label("Sequence property")).to_be_hidden()


def test_a_breakdown_can_use_the_values_of_another_event_than_the_entry(shop, form):
    form.get_by_label("Name", exact=True).fill("Paid")
    fill_steps(form, "started", "paid")
    values_of = form.get_by_label("Values of")
    expect(values_of).to_be_hidden()
    form.get_by_role("button", name="Add a property").click()
    form.locator(".breakdown input").fill("plan")
    values_of.select_option("step 2")
    assert definition(form)["breakdownAt"] == 2
    save(form)
    form.get_by_role("link", name="Edit").click()
    expect(values_of).to_have_value("2")
    values_of.select_option("the entry")
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_url(SAVED)
    [funnel] = shop.client.get("/api/funnels").json()["data"]
    assert "breakdownAt" not in funnel


def test_a_saved_step_keeps_its_type_when_only_another_type_has_its_name(shop, form):
    steps = [{"type": "Event", "value": "started"}, {"type": "Transaction", "value": "paid"}]
    funnel = create(shop.client, "/api/funnels", {"name": "Own", "steps": steps})
    form.goto(f"/funnels/{funnel['id']}/edit")
    expect(step(form, 2).locator(".unknown")).to_be_visible()  # no transaction has the name
    assert [row["type"] for row in definition(form)["steps"]] == ["Event", "Transaction"]


def test_an_exclusion_between_any_steps_becomes_a_row_of_each_gap(form):
    form.get_by_role("button", name="Add a step").click()
    fill_steps(form, "a", "b", "c")
    exclude(form, 1, "x")
    exclude(form, 2, "y", "steps 2 and 3")
    exclusion(form, 2).get_by_role("button", name="Add a filter").click()
    exclusion(form, 2).get_by_label("Property").fill("plan")
    exclusion(form, 2).get_by_label("Value").last.fill("pro")
    [option] = definition(form)["steps"][3]["or"]
    assert option == match("y", ("plan", "equals", "pro"))

    def rows():
        return [names for names, *_ in kinds(definition(form)["steps"])]

    assert rows() == [["a"], ["x"], ["b"], ["x", "y"], ["c"]]
    form.get_by_role("button", name="Move: Step 2", exact=True).press("ArrowUp")
    assert rows() == [["b"], ["x", "y"], ["a"], ["x"], ["c"]]  # y stays after b
    expect(exclusion(form, 2).get_by_label("between")).to_have_value("1")
    opened(step(form, 1))
    form.get_by_role("button", name="Duplicate: Step 1", exact=True).click()
    assert rows() == [["b"], ["x", "y"], ["b"], ["x"], ["a"], ["x"], ["c"]]
    form.get_by_role("button", name="Remove: Step 1", exact=True).click()
    assert rows() == [["b"], ["x", "y"], ["a"], ["x"], ["c"]]  # y has lost its step
    form.get_by_role("button", name="Remove this exclusion").first.click()
    assert rows() == [["b"], ["y"], ["a"], ["c"]]


def test_an_error_of_an_exclusion_is_shown_once_at_its_line(form):
    form.get_by_label("Name", exact=True).fill("Without mistakes")
    form.get_by_role("button", name="Add a step").click()
    fill_steps(form, "started", "cart_filled", "paid")
    form.get_by_role("button", name="Exclude an event").click()
    form.get_by_role("button", name="Save funnel").click()
    value = exclusion(form, 1).get_by_label("Value")
    expect(value).to_be_focused()
    expect(value).to_have_attribute("aria-invalid", "true")
    expect(form.locator(".fault:not([hidden])")).to_have_count(1)
    expect(form.get_by_role("status").filter(has_text="correct the marked field")).to_be_visible()
    assert_accessible(form)


X = match("x", ("plan", "equals", "pro"))
Y = match("y")
UNUSUAL = {
    "each gap": ([X, Y], [X, Y], 2),
    "one gap": ([X, Y], [], 2),
    "some in each gap": ([Y, X], [X], 2),
    "another order": ([X, Y], [Y, X], 4),
    "twice": ([X, X], [X], 3),
}
"""Excluded events of two gaps, and the number of lines that they have in the builder."""


@pytest.mark.parametrize("case", full_except(["some in each gap"], UNUSUAL, "other rows"))
def test_saved_exclusions_and_strict_steps_are_kept(shop, builder, case):
    first, second, lines = UNUSUAL[case]
    rows = [
        [row(own, *others) | {"exclude": True}] if own else []
        for own, *others in (first or [None], second or [None])
    ]
    steps = [
        row(match("a")),
        *rows[0],
        row(match("b")) | {"strict": True},
        *rows[1],
        row(match("c")),
    ]
    funnel = edit(builder, shop, {**FUNNEL, "steps": steps})
    expect(builder.get_by_role("group", name="Exclusion", exact=True)).to_have_count(lines)
    expect(builder.get_by_label("Order")).to_have_value("mixed")
    assert builder.evaluate("document.querySelector('#recalculates').hidden")
    builder.get_by_label("Name", exact=True).fill("Renamed")
    save_change(builder)
    stored = shop.client.get(f"/api/funnels/{funnel['id']}").json()
    assert (stored["name"], stored["revision"], stored["steps"]) == ("Renamed", 1, steps)


def test_a_named_exclusion_below_a_diagnostic_row_is_kept(shop, builder):
    steps = [
        row(match("a")),
        row(match("d"), diagnostic=True),
        row(match("x"), match("y")) | {"name": "Mistake", "exclude": True},
        row(match("b")) | {"strict": True},
    ]
    funnel = edit(builder, shop, {**FUNNEL, "steps": steps})
    expect(exclusion(builder, 1).get_by_label("Name in reports")).to_have_value("Mistake")
    expect(builder.get_by_label("Order").locator("option:checked")).to_have_text(
        "None of this funnel's events"
    )
    builder.get_by_label("Name", exact=True).fill("Renamed")
    save_change(builder)
    stored = shop.client.get(f"/api/funnels/{funnel['id']}").json()
    assert (stored["revision"], stored["steps"]) == (1, steps)


def test_an_old_preview_is_marked_before_the_funnel_can_be_saved(form):
    fill_steps(form, "started", "paid")
    preview(form, "40 visitors entered, 10 completed")
    held = HeldRequests(form, "**/api/funnels/preview")
    step(form, 2).get_by_label("Value").evaluate(
        """input => {
            input.value = "cart_filled";
            input.dispatchEvent(new Event("input", { bubbles: true }));
            window.isOld = document.querySelector(".preview-result").matches(".old");
        }"""
    )
    assert form.evaluate("isOld")
    assert_accessible(form)
    held.release()
    preview(form, "40 visitors entered, 20 completed")
    expect(form.locator(".preview-result.old")).to_have_count(0)


def test_a_funnel_that_is_saved_at_once_has_the_types_of_its_names(own_shop, own_builder):
    page = own_builder
    buy(own_shop)
    page.goto("/funnels/new")
    fill_steps(page, "started", "/pricing")
    expect(page.get_by_label("Name", exact=True)).to_have_value("started to /pricing")
    with page.expect_request("**/api/funnels"):
        page.get_by_role("button", name="Save funnel").click()
    expect(page).to_have_url(SAVED)
    assert [row["type"] for row in saved(own_shop)["steps"]] == ["Event", "Pageview"]


def test_changes_that_come_from_a_report_say_that_they_recalculate(shop, builder):
    funnel = create(shop.client, "/api/funnels", FUNNEL)
    notice = builder.get_by_text("Saving recalculates retained history.")
    builder.goto(f"/funnels/{funnel['id']}/edit?window=12h")
    expect(notice).to_be_visible()
    builder.get_by_label("Name", exact=True).fill("Renamed")
    expect(notice).to_be_visible()


def test_a_funnel_is_built_by_keyboard_alone(shop, form):
    keys = form.keyboard

    def tab_to(name: str, role: str | None = None):
        """Tab until the focus is on the element with this name."""
        for _ in range(40):
            keys.press("Tab")
            focused = form.evaluate("""() => {
                const element = document.activeElement;
                const text = element.labels?.[0]?.textContent || element.textContent;
                return [element.getAttribute("aria-label") || text.trim(), element.tagName];
            }""")
            if focused[0].startswith(name) and (role is None or focused[1] == role):
                return
        raise AssertionError(f"no {name} is reached")

    expect(form.get_by_label("Name", exact=True)).to_be_focused()
    keys.type(EXPECTED["name"])
    tab_to("Conversion window")
    keys.type("1 day")
    tab_to("Value")
    keys.type("star")
    expect(form.get_by_role("option", name="started 40")).to_be_visible()
    keys.press("ArrowDown")
    keys.press("Enter")
    expect(step(form, 1).get_by_label("Value")).to_have_value("started")
    tab_to("Add a filter")
    keys.press("Enter")
    keys.type("price")
    tab_to("Operator")
    keys.type("is between")
    tab_to("From")
    keys.type("0")
    tab_to("To (inclusive)")
    keys.type("39")
    tab_to("Value")
    keys.type("cart_filled")
    tab_to("More options: Step 2")
    keys.press("Enter")
    tab_to("Add an option: Step 2")
    keys.press("Enter")
    keys.type("wish_made")
    tab_to("Combine options")
    keys.type("all")
    tab_to("Add a step")
    keys.press("Enter")
    keys.type("payment_failed")
    tab_to("More options: Step 3")
    keys.press("Enter")
    tab_to("Diagnostic")
    keys.press("Space")
    tab_to("Add a step")
    keys.press("Enter")
    keys.type("wish_made")
    tab_to("More options: Step 3")
    keys.press("Enter")
    tab_to("Add an option: Step 3")
    keys.press("Enter")
    keys.type("paid")
    tab_to("Add a property")
    keys.press("Enter")
    keys.type("plan")
    keys.press("Escape")
    tab_to("Save funnel")
    keys.press("Enter")
    expect(form).to_have_url(SAVED)
    last = row(match("wish_made"), match("paid"))
    assert saved(shop) == {**EXPECTED, "steps": [*EXPECTED["steps"][:3], last]}


def test_rows_move_by_keys_and_by_drag_are_duplicated_and_removed(form):
    for number, value in enumerate(("a", "b", "c"), start=1):
        if number == 3:
            form.get_by_role("button", name="Add a step").click()
        step(form, number).get_by_label("Value").fill(value)

    def order():
        return [item["value"] for item in definition(form)["steps"]]

    form.get_by_role("button", name="Move: Step 3", exact=True).press("ArrowUp")
    assert order() == ["a", "c", "b"]
    expect(form.get_by_role("button", name="Move: Step 2", exact=True)).to_be_focused()
    form.keyboard.press("ArrowUp")
    assert order() == ["c", "a", "b"]
    form.keyboard.press("ArrowUp")  # the first stays where it is
    assert order() == ["c", "a", "b"]

    expect(form.get_by_text("No events with this name yet.").filter(visible=True)).to_have_count(3)
    handle = step(form, 1).locator("[data-drag]").bounding_box()
    below = step(form, 3).bounding_box()
    form.mouse.move(handle["x"] + 8, handle["y"] + 8)
    form.mouse.down()
    form.mouse.move(handle["x"] + 8, below["y"] + below["height"], steps=12)
    form.mouse.up()
    assert order() == ["a", "b", "c"]

    opened(step(form, 2))
    form.get_by_role("button", name="Duplicate: Step 2").click()
    assert order() == ["a", "b", "b", "c"]
    opened(step(form, 1)).get_by_role("button", name="Remove: Step 1", exact=True).click()
    assert order() == ["b", "b", "c"]
    expect(form.get_by_role("button", name="More options: Step 1", exact=True)).to_be_focused()


def test_each_operator_has_the_input_that_it_needs(form):
    first = step(form, 1)
    first.get_by_role("button", name="Add a filter").click()
    first.get_by_label("Property").fill("plan")

    def chosen(operator):
        first.get_by_label("Operator").select_option(operator)

    def sent():
        [condition] = definition(form)["steps"][0]["filters"]
        return condition.get("value")

    def label(text):
        return first.locator(".filter-inputs").get_by_label(text)

    label("Value").fill("pro")
    assert sent() == "pro"
    chosen("contains")
    assert sent() == "pro"
    chosen("is (any case)")
    assert sent() == "pro"
    chosen("is set")
    expect(first.locator(".filter-inputs > *")).to_have_count(0)
    assert sent() is None
    chosen("is one of")
    label("Values").fill('pro\nit\'s "5"')
    assert json.loads(sent()) == ["pro", 'it\'s "5"']
    chosen("is between")
    label("From").fill("1.50")
    label("To").fill("2")
    assert sent() == "[1.50, 2]"
    chosen("is before")
    label("Date").fill("2026-05-01")
    assert sent() == "2026-05-01"
    label("Time").fill("12:30")
    assert sent() == "2026-05-01T12:30Z"
    chosen("matches regex")
    expect(first.get_by_text("RE2 syntax")).to_be_visible()
    label("Regular expression").fill("(?=a)")
    first.get_by_label("Value", exact=True).first.fill("started")
    step(form, 2).get_by_label("Value").fill("paid")
    expect(first.locator(".filter .fault:not([hidden])")).to_be_visible()
    expect(form.locator("#preview")).to_have_attribute("data-state", "faulty")


def test_faults_stand_at_their_fields_and_nothing_typed_is_lost(form):
    form.get_by_text("Attempts", exact=True).click()
    expect(form.get_by_label("Conversion window")).to_have_value("604800")
    expect(
        form.get_by_label("Conversion window").locator("option", has_text="No window")
    ).to_be_disabled()
    step(form, 1).get_by_label("Value").fill("started")
    form.get_by_role("button", name="Save funnel").click()
    expect(form.get_by_label("Name", exact=True)).to_be_focused()
    attempt = form.get_by_label("Attempt property")
    expect(attempt).to_have_accessible_description(
        re.compile("needs the name of the property with the attempt ID")
    )
    expect(step(form, 2).get_by_label("Value")).to_have_attribute("aria-invalid", "true")
    expect(step(form, 1).get_by_label("Value")).not_to_have_attribute("aria-invalid", "true")
    expect(step(form, 1).get_by_label("Value")).to_have_value("started")
    assert_accessible(form)

    attempt.fill("$path")
    step(form, 2).get_by_label("Value").fill("paid")
    expect(attempt).to_have_accessible_description(re.compile("not a built-in field"))
    opened(step(form, 1)).get_by_role("switch", name="Diagnostic").check()
    expect(form.get_by_role("group", name="Diagnostic before step 1")).to_be_visible()
    form.get_by_role("button", name="Save funnel").click()
    expect(form.get_by_text("A funnel needs at least 2 required steps")).to_be_visible()


def test_a_visitor_funnel_begins_with_14_days_and_may_have_a_sequence_property(shop, form):
    window = form.get_by_label("Conversion window")
    expect(window).to_have_value("1209600")
    form.get_by_text("Attempts", exact=True).click()
    expect(window).to_have_value("604800")
    form.locator("#builder").get_by_text("Visitors", exact=True).click()
    expect(window).to_have_value("1209600")
    window.select_option("No window")
    form.get_by_label("Name", exact=True).fill("Paying")
    form.locator("summary", has_text="More options").click()
    form.get_by_label("Sequence property").fill("price")
    fill_steps(form, "started", "paid")
    # Each event of a user has the same price, which proves no order.
    preview(form, "40 visitors entered, 0 completed, 40 not converted")
    expect(form.locator("#preview [data-notes]")).to_contain_text("no conversion window")
    expect(form.locator("#preview [data-notes]")).not_to_contain_text("pending")
    save(form)
    [funnel] = shop.client.get("/api/funnels").json()["data"]
    assert (funnel["sequenceProperty"], funnel["conversionWindowSeconds"]) == ("price", None)


def test_a_window_of_another_length_is_saved_and_can_be_changed(shop, form):
    form.get_by_label("Name", exact=True).fill("Paying")
    expect(form.get_by_label("Length")).to_be_hidden()
    form.get_by_label("Conversion window").select_option("Other")
    form.get_by_label("Length").fill("0")
    fill_steps(form, "started", "paid")
    expect(form.get_by_label("Length")).to_have_attribute("aria-invalid", "true")
    form.get_by_label("Length").fill("30")
    form.get_by_label("Unit").select_option("Minutes")
    preview(form, "10 of 40 settled, 40 visitors entered")
    assert_accessible(form)
    save(form)
    [funnel] = shop.client.get("/api/funnels").json()["data"]
    assert funnel["conversionWindow"] == {"value": 30, "unit": "minute"}
    assert "conversionWindowSeconds" not in funnel
    form.goto(f"/funnels/{funnel['id']}/edit")
    expect(form.get_by_label("Length")).to_have_value("30")
    expect(form.get_by_label("Unit")).to_have_value("minute")
    form.get_by_label("Conversion window").select_option("1 day")
    save_change(form)
    [funnel] = shop.client.get("/api/funnels").json()["data"]
    assert funnel["conversionWindowSeconds"] == 86_400
    assert "conversionWindow" not in funnel


def test_every_run_is_counted_if_asked_and_the_report_speaks_of_runs(shop, form):
    form.get_by_label("Name", exact=True).fill("Orders")
    form.locator("summary", has_text="More options").click()
    count_every_run = form.get_by_role("checkbox", name="Count every run")
    expect(count_every_run).not_to_be_checked()
    form.get_by_text("Attempts", exact=True).click()
    expect(count_every_run).to_be_hidden()
    form.locator("#builder").get_by_text("Visitors", exact=True).click()
    form.get_by_label("Conversion window").select_option("No window")
    expect(count_every_run).to_be_hidden()
    form.get_by_label("Conversion window").select_option("1 day")
    count_every_run.press("Space")
    fill_steps(form, "started", "paid")
    preview(form, "40 runs entered, 10 completed")
    assert_accessible(form)
    save(form)
    [funnel] = shop.client.get("/api/funnels").json()["data"]
    assert funnel["repeat"] is True
    expect(form.locator("#coverage")).to_contain_text("Runs that entered")
    form.goto(f"/funnels/{funnel['id']}/units?period=all")
    expect(form.get_by_role("heading", level=1)).to_contain_text("Runs that entered")
    form.get_by_role("row").nth(1).get_by_role("link").first.click()
    expect(form.get_by_role("heading", level=1)).to_contain_text("Run ")
    expect(form.locator("#timeline")).to_contain_text("Completes step 1: the entry.")
    assert_accessible(form)
    form.goto(f"/funnels/{funnel['id']}/edit")
    expect(count_every_run).to_be_checked()
    count_every_run.uncheck()
    save_change(form)
    [funnel] = shop.client.get("/api/funnels").json()["data"]
    assert "repeat" not in funnel


def test_the_preview_can_count_the_last_seven_settled_days(form):
    fill_steps(form, "started", "paid")
    form.get_by_label("Conversion window").select_option("7 days")
    preview(form, "entered")
    with form.expect_request("**/api/funnels/preview") as sent:
        form.get_by_label("Period").select_option("Last 7 settled days")
    query, day_ms = sent.value.post_data_json, 86_400_000
    assert query["endAt"] - query["startAt"] == 7 * day_ms
    assert query["endAt"] % day_ms == 0
    assert 7 * day_ms <= time() * 1000 - query["endAt"] <= 8 * day_ms + 60_000


@pytest.mark.full("another field")
def test_an_empty_option_is_marked_once_the_reader_leaves_its_row(form):
    fill_steps(form, "started", "paid")
    opened(step(form, 1)).get_by_role("button", name="Add an option").click()
    option = step(form, 1).get_by_label("Value").nth(1)
    expect(form.get_by_text("Fill in the empty fields to update the preview.")).to_be_visible()
    expect(option).not_to_have_attribute("aria-invalid", "true")
    form.get_by_label("Name", exact=True).focus()
    expect(option).to_have_attribute("aria-invalid", "true")
    opened(step(form, 2)).get_by_label("Value").fill("cart_filled")
    expect(form.get_by_text("Can't preview yet")).to_be_visible()
    expect(option).to_have_attribute("aria-invalid", "true")
    assert_accessible(form)


def test_a_change_says_that_it_recalculates_and_a_new_name_does_not(shop, builder):
    page = builder
    funnel = edit(page, shop, FUNNEL)
    expect(page.get_by_text("Revision 1", exact=True)).to_be_visible()
    notice = page.get_by_text("Saving recalculates retained history.")
    page.get_by_label("Name", exact=True).fill("Paying")
    expect(notice).to_be_hidden()
    opened(step(page, 2)).get_by_label("Value").fill("cart_filled")
    expect(notice).to_be_visible()
    expect(page.get_by_text("This becomes revision 2")).to_be_visible()
    save_change(page)
    stored = shop.client.get(f"/api/funnels/{funnel['id']}").json()
    assert (stored["name"], stored["revision"], stored["steps"][1]["value"]) == (
        "Paying",
        2,
        "cart_filled",
    )


def test_a_step_gets_a_name_that_is_shown_and_keeps_the_revision(shop, builder):
    page = builder
    funnel = edit(page, shop, FUNNEL)
    first = opened(step(page, 1))
    first.get_by_label("Name in reports").fill("Sign-up")
    expect(page.get_by_role("group", name="Step 1: Sign-up", exact=True)).to_be_visible()
    expect(page.locator("#preview bdi").first).to_have_text("1. Sign-up")
    expect(page.get_by_text("Saving recalculates retained history.")).to_be_hidden()
    assert_accessible(page)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Sign-up")).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    stored = shop.client.get(f"/api/funnels/{funnel['id']}").json()
    assert (stored["revision"], stored["steps"][0]["name"]) == (1, "Sign-up")
    page.goto(f"/funnels/{funnel['id']}/edit")
    named = opened(page.get_by_role("group", name="Step 1: Sign-up"))
    named.get_by_label("Name in reports").fill("")
    save_change(page)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert "name" not in shop.client.get(f"/api/funnels/{funnel['id']}").json()["steps"][0]


def test_a_change_does_not_overwrite_one_that_another_member_saved_meanwhile(shop, builder, watch):
    page = builder
    funnel = edit(page, shop, FUNNEL)
    path = f"/api/funnels/{funnel['id']}"
    opened(step(page, 2)).get_by_label("Value").fill("cart_filled")
    theirs = FUNNEL | {"steps": event_steps("started", "wish")}
    shop.client.put(path, json=theirs).raise_for_status()
    for _ in range(2):
        page.get_by_role("button", name="Save", exact=True).click()
        notice = page.get_by_role("alert").filter(has_text="Not saved, because someone else")
        expect(notice).to_be_focused()
        assert shop.client.get(path).json()["steps"][1]["value"] == "wish"
    preview(page, "40 visitors entered")  # A result of the preview does not hide the notice.
    assert_accessible(page)
    with page.expect_popup() as opened_tab:
        notice.get_by_role("link", name="Open the current version").click()
    current = opened_tab.value
    opened(step(current, 2)).get_by_label("Value").fill("cart_filled")
    save_change(current)
    assert shop.client.get(path).json()["steps"][1]["value"] == "cart_filled"
    watch.allow("409")


def test_a_saved_funnel_is_unchanged_by_editing_its_name(shop, builder):
    goal = {"name": "Paid", "match": {"type": "Event", "value": "paid"}}
    shop.client.post("/api/goals", json=goal).raise_for_status()
    filters = [
        ("plan", "in", '["pro", 5, true]'),
        ("price", "not_between", "[0, 1e3]"),
        ("at", "after", "1746100000000"),
        ("at", "before", "2030-01-01 10:00"),
        ("plan", "is_set", ""),
        ("plan", "equals", ""),
    ]
    sent = {
        **EXPECTED,
        "countingUnit": "attempt",
        "attemptProperty": "checkout",
        "sequenceProperty": "n",
        "steps": [
            *EXPECTED["steps"],
            row(match("Paid", *filters, kind="Goal")),
            row(match("/a/*", kind="Pageview")),
        ],
    }
    funnel = edit(builder, shop, sent)
    builder.get_by_label("Name", exact=True).fill("Renamed")
    save_change(builder)
    stored = shop.client.get(f"/api/funnels/{funnel['id']}").json()
    assert (stored["name"], stored["revision"]) == ("Renamed", 1)


def test_an_older_answer_never_takes_the_place_of_a_newer_one(form):
    held = []
    form.route("**/api/funnels/preview", lambda route: held.append(route), times=1)
    step(form, 1).get_by_label("Value").fill("started")
    with form.expect_request("**/api/funnels/preview"):
        step(form, 2).get_by_label("Value").fill("paid")
    expect(form.locator("#preview").get_by_text("Counting", exact=True)).to_have_count(1)
    step(form, 2).get_by_label("Value").fill("cart_filled")
    preview(form, "40 visitors entered, 20 completed")
    with form.expect_response("**/api/funnels/preview"):
        held[0].continue_()
    form.wait_for_timeout(800)
    preview(form, "40 visitors entered, 20 completed")


def test_a_preview_that_takes_too_long_or_fails_says_so_and_can_be_retried(shop, builder, watch):
    page = builder
    problem = {
        "title": "Service unavailable",
        "status": 503,
        "code": "query_timeout",
        "detail": "It took longer than 10 seconds.",
    }
    refused = {
        "status": 503,
        "content_type": "application/problem+json",
        "body": json.dumps(problem),
    }
    page.route("**/api/funnels/preview", lambda route: route.fulfill(**refused))
    page.goto("/funnels/new")
    fill_steps(page, "started", "paid")
    expect(page.get_by_text("This takes too long")).to_be_visible()
    expect(
        page.locator("[data-shows=slow]").get_by_text("It took longer than 10 seconds.")
    ).to_be_visible()
    assert_accessible(page)
    page.unroute("**/api/funnels/preview")
    page.route("**/api/funnels/preview", lambda route: route.abort())
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("The preview failed")).to_be_visible()
    page.unroute("**/api/funnels/preview")
    page.get_by_role("button", name="Try again").click()
    preview(page, "40 visitors entered, 10 completed")
    watch.allow("503")
    watch.allow("ERR_FAILED")


def test_thirty_rows_fit_and_no_more_are_added(shop, builder):
    page = builder
    steps = [{"type": "Event", "value": f"step {n}", "diagnostic": n >= 20} for n in range(30)]
    edit(page, shop, {**FUNNEL, "steps": steps})
    expect(page.locator("#counters")).to_have_text("20 of 20 steps, 30 of 30 rows")
    opened(step(page, 1))
    for name in ("Add a step", "Add a diagnostic row", "Duplicate: Step 1"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_attribute(
            "aria-disabled", "true"
        )
    assert_fits_at(page, 1440, 360)
    opened(step(page, 20)).get_by_role("button", name="Remove: Step 20").click()
    page.get_by_role("button", name="Add a step").click()
    expect(page.locator("#counters")).to_have_text("20 of 20 steps, 30 of 30 rows")
    assert len(definition(page)["steps"]) == 30


@pytest.mark.parametrize("text", full_except(HOSTILE[:1], HOSTILE, "other texts"))
def test_hostile_texts_are_shown_as_text_and_saved_as_they_are(shop, builder, text):
    page = builder
    hostile = match(text, (text, "equals", text))
    name = text.translate(TURNING)
    sent = {
        "name": name,
        "breakdownProperties": [text],
        "steps": [row(hostile, hostile), row(match("paid"))],
    }
    funnel = edit(page, shop, sent)
    preview(page, "visitors entered")
    expect(step(page, 1).get_by_label("Value", exact=True).first).to_have_value(text)
    assert_fits_at(page, 1280, 360)
    opened(step(page, 2)).get_by_label("Value").fill(text)
    save_change(page)
    stored = shop.client.get(f"/api/funnels/{funnel['id']}").json()
    assert (stored["name"], stored["steps"][0], stored["steps"][1]["value"]) == (
        name,
        sent["steps"][0],
        text,
    )


def test_the_curl_command_saves_the_same_funnel(shop, form):
    form.get_by_label("Name", exact=True).fill('Ann\'s "funnel" `id` $HOME')
    fill_steps(form, "started", "paid")
    form.locator(".copies summary").click()
    key = new_key(shop.client)
    command = form.locator("#definition-curl").inner_text().replace("YOUR_API_KEY", key)
    answer = run_program(["bash", "-c", command], may_warn=True)
    assert json.loads(answer)["name"] == 'Ann\'s "funnel" `id` $HOME'


def test_leaving_a_page_with_unsaved_changes_asks_for_confirmation(form):
    form.get_by_role("button", name="Add a step").click()
    dialogs = []
    form.on("dialog", lambda dialog: (dialogs.append(dialog.type), dialog.accept()))
    form.get_by_role("link", name="Funnels").first.click()
    expect(form).to_have_url(re.compile("/funnels$"))
    assert dialogs == ["beforeunload"]


def test_an_unknown_name_is_marked_until_it_has_events(own_shop, own_builder):
    page = own_builder
    page.goto("/funnels/new")
    fill_steps(page, "payed", "paid")
    page.get_by_label("Name", exact=True).focus()
    unknown = "No events with this name yet."
    expect(step(page, 1).get_by_text(unknown)).to_be_visible()
    expect(step(page, 2).get_by_text(unknown)).to_be_hidden()
    track(own_shop.client, website_of(own_shop), name="payed", visitorId="ann")
    expect(step(page, 1).get_by_text(unknown)).to_be_hidden()


@pytest.mark.full("other data")
def test_the_funnel_of_the_demo_is_previewed(demo_page, demo):
    demo_page.goto(f"/funnels/{demo.ids['funnel']}/edit")
    preview(demo_page, "attempts entered")
    expect(demo_page.locator(".preview-steps li")).to_have_count(5)


def test_suggestions_that_were_empty_appear_once_events_are_stored(
    account, website, signed_in, watch
):
    """Events take a moment until they can be queried, and a reader may be quicker."""
    page = signed_in
    page.goto("/funnels/new")
    page.get_by_text("Attempts", exact=True).click()
    first = step(page, 1)
    first.get_by_role("button", name="Add a filter").click()
    first.get_by_label("Property").fill("plan")
    for field, typed, option in (
        (page.get_by_label("Attempt property"), "ord", "orderId"),
        (first.get_by_label("Value", exact=True).first, "check", "checkout_started"),
        (first.locator(".filter-inputs").get_by_label("Value"), "pr", "pro"),
    ):
        with page.expect_response(re.compile(f"[?&]search={typed}&")) as response:
            field.fill(typed)
        assert response.value.json()["data"] == []
        name = "other" if option == "orderId" else "checkout_started"
        properties = {"plan": "pro" if option == "pro" else "x", option: "1"}
        track(account.client, website, name=name, visitorId="ann", properties=properties)
        page.get_by_role("option", name=option).click()
        expect(field).to_have_value(option)
    watch.allow("422")


def test_input_from_before_the_modules_were_loaded_is_not_lost(shop, builder):
    """On a slow connection the reader types before anything listens."""
    page = builder
    module = HeldRequests(page, "**/builder.js*")
    page.goto("/funnels/new", wait_until="commit")
    page.get_by_label("Name", exact=True).fill("Checkout")
    page.get_by_label("Conversion window").select_option("30 days")
    page.get_by_text("Attempts", exact=True).click()
    page.get_by_label("Attempt property").fill("pla")
    module.release()
    page.get_by_role("option", name="plan").click()
    expect(page.get_by_label("Attempt property")).to_have_value("plan")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Checkout")
    expect(page.get_by_label("Conversion window")).to_have_value(str(30 * 86_400))


def website_of(shop):
    return shop.client.get("/api/settings/websites").json()["data"][0]["id"]


def buy(shop):
    """A user visits a page, and a transaction is stored."""
    own = {"website_id": website_of(shop), "visitorId": "ann"}
    track(shop.client, **own, type="pageview", path="/pricing")
    track(shop.client, **own, type="transaction", name="purchase", properties={"amount": 5})
    eventually(lambda: shop.client.get("/api/schema/events").json()["total"] == 7)


def test_one_list_offers_events_of_all_kinds_with_counts_and_when_they_were_last_seen(
    own_shop, own_builder
):
    page = own_builder
    buy(own_shop)
    page.goto("/funnels/new")
    for number, (typed, option, kind) in enumerate(
        (
            ("purch", r"Transaction purchase 1, .*(second|now)", "Transaction"),
            ("pric", r"Page view .pricing 1, ", "Pageview"),
        ),
        start=1,
    ):
        step(page, number).get_by_label("Value").fill(typed)
        page.get_by_role("option", name=re.compile(option)).click()
        expect(step(page, number).get_by_label("Type")).to_have_value(kind)
    page.get_by_role("button", name="Add a step").click()
    step(page, 3).get_by_label("Value").fill("purchase")  # the whole name
    expect(page.get_by_role("option", name=re.compile("Transaction purchase"))).to_be_visible()
    page.keyboard.press("Enter")
    expect(step(page, 3).get_by_label("Type")).to_have_value("Transaction")
    page.get_by_role("button", name="Add a step").click()
    step(page, 4).get_by_label("Value").fill("/pricing")  # typed, and not picked
    page.get_by_label("Name", exact=True).focus()
    expect(step(page, 4).get_by_label("Type")).to_have_value("Pageview")
    step(page, 4).get_by_label("Type").select_option("Event")  # chosen
    expect(step(page, 4).get_by_text("No events with this name yet.")).to_be_visible()
    expect(step(page, 4).get_by_label("Type")).to_have_value("Event")


def test_the_picker_of_a_filter_lists_traits_and_first_time(own_shop, own_builder):
    page = own_builder
    identity = {"visitorId": "ann", "userId": "user 1", "traits": {"tier": "gold"}}
    identity["websiteId"] = website_of(own_shop)
    answer = own_shop.client.post("/api/identify", json=identity)
    assert answer.status_code == 200
    page.goto("/funnels/new")
    page.get_by_label("Name", exact=True).fill("Golden")
    fill_steps(page, "started", "cart_filled")
    suggestions = page.get_by_role("listbox", name="Suggestions")
    step(page, 1).get_by_role("button", name="Add a filter").click()
    step(page, 1).get_by_label("Property").fill("tier")
    expect(suggestions.get_by_role("option")).to_have_text(["Trait $trait.tier string 1"])
    suggestions.get_by_role("option").click()
    suggestions.get_by_role("option", name="gold").click()
    step(page, 1).get_by_role("button", name="Add a filter").click()
    step(page, 1).get_by_label("Property").last.fill("first")
    suggestions.get_by_role("option", name="First time").click()
    expect(step(page, 1).locator("[data-operator]").last).to_have_value("is_true")
    save(page)
    assert saved(own_shop)["steps"][0]["filters"] == [
        {"property": "$trait.tier", "operator": "equals", "value": "gold"},
        {"property": "$first_time", "operator": "is_true", "value": ""},
    ]
    page.locator("summary", has_text="Break down").click()
    page.locator("[data-key]").first.fill("tier")
    expect(suggestions.get_by_role("option")).to_have_text(["Trait $trait.tier string 1"])


MAX_CLICKS = 12


def test_a_funnel_of_four_steps_with_a_filter_and_a_breakdown_takes_twelve_clicks(
    own_shop, own_builder
):
    page = own_builder
    buy(own_shop)
    page.goto("/funnels/new")
    clicks = []

    def click(locator):
        clicks.append(locator)
        locator.click()

    click(step(page, 1).get_by_label("Value"))
    suggestions = page.get_by_role("listbox", name="Suggestions")
    for at, name in enumerate(("started", "cart_filled", "wish_made", "purchase")):
        if at >= 2:
            click(page.get_by_role("button", name="Add a step"))
        click(suggestions.get_by_role("option", name=name))
    click(step(page, 1).get_by_role("button", name="Add a filter"))
    click(suggestions.get_by_role("option", name="plan"))
    click(suggestions.get_by_role("option", name="pro"))
    click(page.locator("#breakdown-ideas").get_by_role("button", name="plan"))
    click(page.get_by_role("button", name="Save funnel"))
    expect(page).to_have_url(SAVED)
    stored = saved(own_shop)
    assert (stored["name"], stored["breakdownProperties"]) == ("started to purchase", ["plan"])
    names = [(row["type"], row["value"]) for row in stored["steps"]]
    assert names == [
        ("Event", "started"),
        ("Event", "cart_filled"),
        ("Event", "wish_made"),
        ("Transaction", "purchase"),
    ]
    assert stored["steps"][0]["filters"] == [
        {"property": "plan", "operator": "equals", "value": "pro"}
    ]
    assert len(clicks) <= MAX_CLICKS


def test_an_empty_field_has_no_error_before_the_reader_was_there(form):
    form.get_by_text("Attempts", exact=True).click()
    fill_steps(form, "started", "paid")
    expect(form.get_by_text("Fill in the empty fields to update the preview.")).to_be_visible()
    attempt = form.get_by_label("Attempt property")
    expect(attempt).not_to_have_attribute("aria-invalid", "true")
    attempt.focus()
    form.get_by_label("Name", exact=True).focus()
    expect(attempt).to_have_attribute("aria-invalid", "true")


def test_the_preview_waits_for_the_value_of_a_filter_and_names_one_that_matches_nothing(form):
    fill_steps(form, "started", "paid")
    preview(form, "40 visitors entered")
    nothing = form.locator("#preview").get_by_text(
        "No visitors completed the first step with its filters in this period."
    )
    expect(nothing).to_have_count(0)
    queries = []
    form.on("request", lambda request: queries.append(request.post_data))
    step(form, 1).get_by_role("button", name="Add a filter").click()
    form.get_by_role("option", name="plan").click()
    expect(form.locator("#preview")).to_have_attribute("data-state", "incomplete")
    form.get_by_role("option", name="basic").click()
    preview(form, "20 visitors entered")
    previews = [query for query in queries if query and "filters" in query]
    assert len(previews) == 1
    assert '"basic"' in previews[0]
    step(form, 1).locator(".filter-inputs").get_by_label("Value").fill("none of these")
    preview(form, "0 visitors entered")
    expect(nothing).to_be_visible()
    expect(form.get_by_text("Still counting")).to_have_count(0)


def test_a_suggested_name_is_not_broken_on_a_small_screen(form):
    form.set_viewport_size({"width": 360, "height": 800})
    step(form, 1).get_by_label("Value").fill("payment")
    name = form.get_by_role("option", name="payment_failed").locator("bdi")
    assert name.bounding_box()["height"] < 30


def test_own_properties_come_before_built_in_fields(form):
    step(form, 1).get_by_label("Value").fill("started")
    step(form, 1).get_by_role("button", name="Add a filter").click()
    form.get_by_role("option", name="plan").wait_for()
    names = form.get_by_role("option").locator("bdi").all_inner_texts()
    assert set(names[:2]) == {"plan", "price"}
    assert all(name.startswith("$") for name in names[2:])
    assert form.get_by_role("listbox").bounding_box()["width"] >= 380


def test_enter_takes_the_first_match_of_the_text_and_never_a_stale_suggestion(form):
    form.get_by_role("button", name="Add a property").click()
    form.get_by_role("option", name="plan").wait_for()
    held = HeldRequests(form, re.compile("/api/schema/properties"))
    keys, chosen = form.keyboard, form.locator("#suggestions [aria-selected=true]")
    keys.type("pri")
    expect(chosen).to_have_text(re.compile("^price"))
    expect(form.get_by_role("option", name="plan")).to_have_count(0)
    keys.press("Enter")
    assert definition(form)["breakdownProperties"] == ["price"]

    form.get_by_role("button", name="Add a property").click()
    keys.type("vari")
    keys.press("Enter")
    assert definition(form)["breakdownProperties"] == ["price", "vari"]
    keys.press("ControlOrMeta+a")
    keys.type("PLA")
    keys.press("Enter")  # before any list is loaded
    held.release()
    expect(form.locator(".breakdown input").last).to_have_value("plan")

    form.get_by_role("button", name="Add a property").click()
    form.get_by_role("option", name="plan").wait_for()
    keys.type("pla")
    expect(chosen).to_have_text(re.compile("^plan"))
    keys.press("Escape")
    expect(form.locator("#suggestions")).to_be_hidden()
    keys.press("Enter")
    assert definition(form)["breakdownProperties"] == ["price", "plan", "pla"]


def test_a_breakdown_offers_nearly_unique_properties_last(form):
    step(form, 1).get_by_label("Value").fill("started")
    step(form, 2).get_by_label("Value").fill("paid")
    ideas = form.locator("#breakdown-ideas").get_by_role("button")
    expect(ideas).to_have_text(["plan"])
    form.get_by_role("button", name="Add a property").click()
    names = form.locator("#suggestions bdi")
    expect(names.first).to_have_text("plan")
    expect(names.last).to_have_text("price")


def test_a_save_without_a_server_says_so_at_the_button(form, watch):
    form.get_by_label("Name", exact=True).fill("Checkout")
    fill_steps(form, "started", "paid")
    form.context.set_offline(True)
    button = form.get_by_role("button", name="Save funnel")
    button.click()
    message = form.get_by_role("alert").filter(has_text="The server cannot be reached.")
    expect(message).to_be_in_viewport(ratio=1)
    gap = button.bounding_box()["y"] - message.bounding_box()["y"]
    assert 0 < gap < 200
    watch.allow("ERR_INTERNET_DISCONNECTED")


def test_nothing_moves_while_the_builder_loads(shop, builder):
    builder.add_init_script("""
        window.shifted = 0;
        const add = (list) => list.getEntries().forEach((entry) => (shifted += entry.value));
        new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
    """)
    steps = [row(match("started")), row(match("wish_made")) | {"exclude": True}, row(match("paid"))]
    for width in (390, 768, 1440):
        builder.set_viewport_size({"width": width, "height": 900})
        for path in ("/funnels/new", None):
            if path:
                builder.goto(path)
            else:
                edit(builder, shop, {**FUNNEL, "name": f"At {width}", "steps": steps})
            expect(builder.locator("[data-row]")).to_have_count(2)
            builder.wait_for_load_state("networkidle")
            assert builder.evaluate("shifted") < 0.1
            assert all(builder.get_by_role("heading").all_inner_texts())


def test_a_closed_step_is_one_line_of_text_until_it_is_opened(shop, builder):
    page = builder
    steps = [
        row(match("started", ("plan", "in", '["pro", "max"]')), match("wish_made")),
        row(match("/pricing", kind="Pageview")) | {"name": "Prices", "strict": True},
        row(match("payment_failed"), diagnostic=True),
        row(match("payed")),
    ]
    edit(page, shop, {**FUNNEL, "steps": steps})
    texts = page.locator(".row-text")
    expect(texts).to_have_text(
        [
            "started where plan is one of pro, max or wish_made",
            "Prices Page view /pricing (strict)",
            "Diagnostic payment_failed",
            "payed",
        ]
    )
    expect(page.locator(".rows :is(input, select):visible")).to_have_count(0)
    unknown = step(page, 3).get_by_text("No events with this name yet.")
    expect(unknown).to_be_visible()
    heights = [line.bounding_box()["height"] for line in page.locator("[data-row]").all()]
    assert max(heights) - min(heights) <= 1
    assert_accessible(page)

    first = step(page, 1)
    first.get_by_role("button", name="More options").press("Enter")
    expect(first.get_by_label("Property")).to_be_visible()
    expect(texts.first).to_be_hidden()
    first.get_by_role("button", name="More options").press("Enter")
    expect(texts.first).to_be_visible()
    texts.last.click()
    expect(step(page, 3).get_by_label("Value")).to_be_focused()
    step(page, 3).get_by_label("Value").fill("paid")
    step(page, 3).get_by_role("button", name="More options").click()
    expect(texts.last).to_have_text("paid")
    expect(unknown).to_be_hidden()


def test_an_entered_step_closes_once_the_reader_continues_elsewhere(form):
    first, second = step(form, 1), step(form, 2)
    first.get_by_label("Value").click()
    form.get_by_role("option", name="started 40").click()  # continues with the second step
    expect(first.locator(".row-text")).to_have_text("started")
    expect(first.get_by_label("Value")).to_be_hidden()
    expect(second.get_by_label("Value")).to_be_focused()
    form.keyboard.type("paid")
    second.locator(".row-number").click()
    expect(second.get_by_label("Value")).to_be_visible()
    second.get_by_label("Value").focus()
    for _ in range(6):
        form.keyboard.press("Tab")
    expect(second.locator(".row-text")).to_have_text("paid")
    expect(second.get_by_label("Value")).to_be_hidden()
    form.get_by_role("button", name="Add a step").click()
    form.get_by_label("Name", exact=True).click()
    expect(step(form, 3).get_by_label("Value")).to_be_visible()  # it has no event yet


@pytest.mark.full("another width")
def test_on_a_small_screen_the_preview_s_sums_stay_in_view_and_an_error_at_saving_too(
    shop, builder
):
    page = builder
    page.set_viewport_size({"width": 390, "height": 700})
    page.goto("/funnels/new")
    fill_steps(page, "started", "paid")
    summary = page.locator(".preview-summary")
    expect(summary).to_contain_text("40 visitors entered, 10 completed")
    page.evaluate("scrollTo(0, 0)")
    expect(summary).to_be_in_viewport()
    page.get_by_label("Name", exact=True).fill("")
    page.get_by_role("button", name="Save funnel").click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    expect(page.get_by_label("Name", exact=True)).to_be_in_viewport()
    expect(page.locator("#field-name-fault")).to_be_in_viewport()
    assert_fits(page)
    assert_accessible(page)


def test_the_attempt_id_is_suggested_and_chosen(account, page, watch):
    """Visitors buy several times. Their carts have IDs, and so have their devices."""
    website, began = new_website(account.client), time() - 3 * 86_400
    for visit in range(40):
        for at, name in enumerate(("begun", "done")):
            track(
                account.client,
                website,
                name=name,
                visitorId=f"v{visit % 8}",
                timestamp=round((began + visit * 1_000 + at) * 1_000),
                properties={"cart_id": f"c{visit}", "device_id": f"d{visit % 8}"},
            )
    sign_in(page.context, account.url, account.client.cookies["service_session"])
    page.goto("/funnels/new")
    suggest = page.get_by_role("button", name="Suggest a property")
    expect(suggest).to_be_hidden()
    page.get_by_role("radio", name="Attempts").check()
    suggest.click()
    advice = page.locator("#attempt-advice")
    expect(advice).to_have_text("Fill in at least two steps first, and fix their faults.")
    step(page, 1).get_by_label("Value").fill("begun")
    step(page, 2).get_by_label("Value").fill("done")
    suggest.click()
    expect(advice).to_have_text(
        "Best choice: cart_id is on 100.0% of the steps' events and makes 40 attempts; "
        "8 visitors have several of them."
    )
    table = page.get_by_role("table", name="Suggested attempt IDs")
    assert_accessible(page)
    assert_fits_at(page, 390, 768, 1440)
    table.get_by_role("button", name="Use cart_id").click()
    expect(page.get_by_label("Attempt property")).to_have_value("cart_id")
    preview(page, "40 attempts entered")
    opened(step(page, 2)).get_by_label("Value").fill("gone")
    expect(table).to_be_hidden()
    watch.allow("422")
