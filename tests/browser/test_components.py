"""Components that more than one page is made of, on a page that holds them all."""

import pytest
from playwright.sync_api import expect

from penstock.base.paging import Listing, Page
from penstock.web.nav import Entry
from penstock.web.rendering import _templates
from tests.browser.conftest import patient, serve_html
from tests.browser.watching import assert_accessible, assert_fits

ALL = """
{% extends "page.html" %}
{% block title %}Components{% endblock %}
{% block scripts %}
<script nonce="{{ nonce }}" src="{{ asset("charts.js") }}" type="module"></script>
{% endblock %}
{% block body %}<main id="main" class="stack">
{% call ui.head("Components", "Each once.", back_to="/") %}
{{ ui.button("One", kind="primary", icon="plus") }}{{ ui.icon_button("Edit", "edit") }}{% endcall %}
{{ ui.tabs(entries, "/a", "Parts") }}
<div class="card">
{{ ui.number(1234567.5) }} {{ ui.number(0.256, "percent") }}
{{ ui.number(93784, "duration") }}
{{ ui.number(4294967296, "bytes") }} {{ ui.number(201, "bytes") }}
{{ ui.number(none) }} {{ ui.time(1741000000000) }} {{ ui.time(none) }}
{{ ui.badge("Good", "good") }}
{{ ui.badge("Bad", "bad") }} {{ ui.badge("Plain") }}
</div>
<div class="card">{{ ui.bar([("reached", 0.5), ("pending", 0.2), ("dropped", 0.3)]) }}
<p class="legend"><span>Reached</span><span class="pending">Pending</span>
<span class="dropped">Dropped</span></p></div>
<div class="card">{{ ui.chart("trend", "Rate by day", data) }}
{{ ui.small_chart("small", "Rate beside figures", data) }}
{{ ui.sparkline("Rate in a table", data) }}</div>
<div class="card">{{ ui.skeleton(3) }}{{ ui.empty("Nothing", "There is nothing here.") }}</div>
{% for tone in ("info", "good", "warn", "bad") %}
{% call ui.notice(tone, "Title") %}A sentence.{% endcall %}
{% endfor %}
<div class="card">{% call ui.form("POST", "/api/goals") %}
{{ ui.select("steps[0].type", "Type", (("Event", "Event"), ("Page", "Page")), "Page") }}
{{ ui.field("steps[0].filters[1].value", "Value", "7", as="number") }}
{{ ui.textarea("lines", "Lines", "a\n b \n", as="list") }}
{{ ui.checkbox("diagnostic", "Diagnostic", look="switch", hint="Counts no one out.") }}
{{ ui.field("note", "Note", optional=true) }}
{{ ui.submit("Save") }}{% endcall %}</div>
<div class="card flush">{{ ui.pager(view, found) }}</div>
</main>{% endblock %}
"""


FAULTS = {
    "errors": [
        {"field": "steps[0].filters[1].value.deep", "code": "wrong_type", "message": "Wrong."},
        {"field": "elsewhere", "code": "required", "message": "Also."},
    ]
}


class PageOf:
    """As much of a view as the pager needs."""

    def address(self, page):
        return "?" if page is None else f"?page={page}"


@pytest.fixture
def gallery(demo, page, watch):
    nonce = "gallery"
    day = 86_400
    open_rates = {"least": [None, 0.5, None, 0.4], "most": [None, 0.5, None, 0.7]}
    series = [
        {"label": "Rate", "values": [0.2, 0.5, None, None], "style": "percent", **open_rates},
        {"label": "Before", "values": [0.3, 0.2, 0.1, 0.2], "style": "percent", "line": "dashed"},
    ]
    text = _templates.from_string(ALL).render(
        nonce=nonce,
        entries=(Entry("One", "/a"), Entry("Two", "/b")),
        data={
            "times": [1_741_000_000 + day * at for at in range(4)],
            "axes": {"x": "Day of entry", "y": "Conversion rate"},
            "series": series,
        },
        view=PageOf(),
        found=Listing(["x"] * 20, Page(2, 20), 57),
    )
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; "
        "img-src 'self' data:; connect-src 'self'"
    )
    serve_html(page, "**/gallery", text, **{"Content-Security-Policy": policy})
    page.goto("/gallery")
    return page


def test_components_are_accessible_and_fit(gallery):
    for width in (1440, 360):
        gallery.set_viewport_size({"width": width, "height": 800})
        assert_fits(gallery)
        assert_accessible(gallery)


def test_numbers_and_times_are_in_the_readers_spelling(gallery):
    card = gallery.locator(".card").first
    for expected in ("1,234,567.5", "25.6%", "1d 2h", "4 GB", "201 bytes", "3 Mar 2025, "):
        expect(card).to_contain_text(expected)


def test_another_language_of_the_browser_mixes_no_formats(browser, gallery):
    """The pages are in English, so are the numbers and times of a German browser."""
    with patient(browser.new_context(locale="de-DE", timezone_id="Europe/Berlin")) as context:
        page, address = context.new_page(), gallery.url
        text = gallery.evaluate("fetch(location.pathname).then((answer) => answer.text())")
        policy = {"Content-Security-Policy": "default-src * data: 'unsafe-inline'"}
        serve_html(page, "**/gallery", text, **policy)
        page.goto(address)
        for expected in ("1,234,567.5", "25.6%", "1d 2h", "3 Mar 2025, 12:06"):
            expect(page.locator(".card").first).to_contain_text(expected)


def test_a_chart_is_drawn_in_the_colours_of_the_theme(gallery):
    line = gallery.locator("#trend svg.drawing > path").first
    expect(line).to_have_attribute("stroke", "rgb(23, 134, 158)")
    gallery.emulate_media(color_scheme="dark")
    expect(line).to_have_attribute("stroke", "rgb(73, 174, 196)")


def test_a_chart_names_its_axes_shows_values_at_the_pointer_and_hides_lines(gallery):
    drawing = gallery.get_by_role("img", name="Rate by day")
    for text in ("Day of entry", "Conversion rate"):
        expect(drawing.get_by_text(text)).to_be_visible()
    box = drawing.bounding_box()
    gallery.mouse.move(box["x"] + box["width"] - 30, box["y"] + 60)
    tip = gallery.locator("#trend .chart-tip")
    expect(tip).to_contain_text("Rate40.0% to 70.0%")
    expect(tip).to_contain_text("Before20.0%")
    shown = tip.bounding_box()
    assert abs(shown["x"] + shown["width"] - (box["x"] + box["width"] - 30)) < 60
    gallery.mouse.move(0, 0)
    expect(tip).to_be_hidden()
    key = gallery.locator("#trend").get_by_role("button", name="Rate")
    key.press("Enter")
    expect(key).to_have_attribute("aria-pressed", "false")
    expect(drawing.locator("path")).to_have_count(1)
    expect(key).to_be_focused()


def test_a_chart_takes_its_scale_from_its_lines_and_cuts_bands(gallery):
    ticks = gallery.locator("#trend svg.drawing > text[text-anchor=end]")
    expect(ticks).to_have_text(["0%", "20%", "40%", "60%"])
    gallery.locator("#trend").get_by_role("button", name="Rate").click()
    expect(ticks).to_have_text(["0%", "10%", "20%", "30%"])
    small = gallery.locator("#small svg.drawing > text")
    expect(small).to_have_text(["0%", "20%", "40%", "60%", "3 Mar", "4 Mar", "open"])


def test_a_sparkline_is_the_same_chart_without_axes(gallery):
    drawing = gallery.get_by_role("img", name="Rate in a table")
    expect(drawing.locator("path")).to_have_count(3)
    expect(drawing.locator("text")).to_have_count(0)


def test_a_form_sends_nested_typed_json_and_shows_faults_at_the_nearest_field(gallery, watch):
    sent = []

    def take(route):
        sent.append(route.request.post_data_json)
        route.fulfill(status=422, json=FAULTS)

    gallery.route("**/api/goals", take)
    gallery.get_by_role("switch", name="Diagnostic").check()
    gallery.get_by_role("button", name="Save").click()
    expect(gallery.get_by_label("Value")).to_have_accessible_description("Wrong.")
    expect(gallery.get_by_role("alert")).to_have_text("elsewhere: Also.")
    filters = [None, {"value": 7}]
    assert sent == [
        {"steps": [{"type": "Page", "filters": filters}], "lines": ["a", "b"], "diagnostic": True}
    ]
    watch.allow("422")


def test_the_pager_leads_to_the_pages_beside(gallery):
    pager = gallery.get_by_role("navigation", name="Pages")
    expect(pager).to_contain_text("21 to 40 of 57")
    expect(pager.get_by_role("link", name="Next")).to_have_attribute("href", "?page=3")
