"""The tab Other tools of a report: settings first, then what another tool's rules give."""

from html import unescape

import pytest

from tests.funnels.scenario import HOUR_S
from tests.web.reading import html_of, link_of, text_of, without_tags

pytestmark = pytest.mark.usefixtures("warehouse")

ADDRESS = "/funnels/{}?period=all&show=otherTools"


def tab(workspace, funnel, query=""):
    return unescape(text_of(workspace, ADDRESS.format(funnel) + query, "detail"))


def test_the_tab_gives_settings_before_sentences_and_reasons(workspace, scene):
    """Ann completes in both, Ben's times are equal."""
    scene.story("0/A 10/B", visitor="ann")
    scene.story("0/A 0/B", visitor="ben")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    text = tab(workspace, funnel, "&countLike=posthog&shown=3")
    parts = (
        "Does another tool show another number?",
        "First compare the settings The window here is 1 hour; PostHog's default is 14 days.",
        "Then the rules By PostHog's rules (November 2026) 2 of 2 visitors completed, here 1.",
        "1 counts only there: equal times count in the order of the steps.",
        "3 = 2 by rules + 1 that rules do not explain (people, filters, missing events).",
        "Equal times count in the order of the steps 1 1 0",
        "Completed here + only there − only here = completed there: 1 + 1 − 0 = 2",
        "Assumed: people are merged as here;",
    )
    positions = [text.index(part) for part in parts]
    assert positions == sorted(positions)
    html = html_of(workspace, ADDRESS.format(funnel) + "&countLike=posthog&shown=3", "detail")
    assert "countLike=posthog&amp;shown=3" in html  # the API call


def test_a_reason_opens_its_units_and_a_trace_has_both_decisions(workspace, scene):
    scene.story("0/A 10/B", visitor="ann")
    scene.story("0/A 0/B", visitor="ben")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    html = html_of(workspace, ADDRESS.format(funnel), "detail")
    units = link_of(html, "1")
    page = text_of(workspace, units)
    assert "Visitors that PostHog counts in another way: equal times" in page
    rows = html_of(workspace, units, "list")
    assert "ann" not in rows
    assert "Step 1 of 2 Dropped off Step 2 of 2" in without_tags(rows)
    trace = unescape(text_of(workspace, link_of(rows, "ben"), "timeline"))
    assert "By PostHog's rules it completes; here it stops after step 1: equal times" in trace
    assert "Skipped: unordered tie" in trace
    assert "In PostHog: Accepted Accepted: completes step 2." in trace


@pytest.mark.parametrize("query", ["countLike=ga4", "countLike=ga4&shown=61"])
def test_google_analytics_is_explained_and_never_counted(workspace, scene, query):
    scene.story("0/A 10/B")
    text = tab(workspace, scene.funnel("A", "B"), f"&{query}")
    assert "Google Analytics 4 counts in another way, so Penstock explains it" in text
    assert "completed" not in text


def test_a_rule_that_is_not_counted_is_named_beside_the_choice_of_tools(workspace, scene):
    scene.story("0/A 10/B")
    funnel = scene.funnel("A", {"type": "Event", "value": "X", "exclude": True}, "B")
    text = tab(workspace, funnel, "&countLike=amplitude")
    assert "How Amplitude counts exclusions is not known. Take the exclusion row out." in text
    assert "Mixpanel" in text


def test_a_mode_of_another_tool_is_left_out(workspace, scene):
    scene.story("0/A 1800/A 3700/B")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    chosen = tab(workspace, funnel, "&countLike=mixpanel&mode=optimized")
    assert "By Mixpanel's rules (November 2026) 1 of 1 visitor completed, here 1." in chosen
    other = tab(workspace, funnel, "&countLike=mixpanel&mode=strict_once")
    assert "By Mixpanel's rules (November 2026) 0 of 1 visitor completed, here 1." in other


def test_totals_of_mixpanel_belong_to_funnels_of_runs(workspace, scene):
    scene.story("0/A 3700/A 3800/B")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S, repeat=True)
    text = tab(workspace, funnel, "&countLike=mixpanel")
    assert "By Mixpanel's rules (November 2026) 1 of 2 runs completed, here 1." in text


def test_trend_and_compare_show_the_tool_beside_penstock(workspace, scene):
    """Ann completes in both, Ben's times are equal."""
    scene.story("0/A 10/B", visitor="ann", plan="pro")
    scene.story("0/A 0/B", visitor="ben", plan="pro")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S, breakdownProperties=["plan"])
    address = f"/funnels/{funnel}?period=all&countLike=posthog&show="
    trend = unescape(text_of(workspace, f"{address}trend", "detail"))
    assert "With the numbers by PostHog's rules. Leave out PostHog" in trend
    assert "In PostHog" in trend
    assert "2 of 2 here 1 of 2" in trend
    compare = unescape(text_of(workspace, f"{address}compare", "detail"))
    assert "PostHog: 2 of 2 here 1 of 2" in compare
    times = unescape(text_of(workspace, f"{address}times", "detail"))
    assert "This tab counts by Penstock's rules only, not by those of PostHog." in times
    refused = address.replace("posthog", "windowfunnel")
    text = unescape(text_of(workspace, f"{refused}compare", "detail"))
    assert "By windowFunnel's rules, this tab has no numbers. The cohorts of" in text
