"""The flow chart of a link: streams in proportion, rows that add up to the clicks."""

import re

import pytest

from penstock.links.statistics.schema import LinkStatisticsRecord, TotalsRecord
from penstock.web.pages.links.flow import flow_of


def stats(clicks, installs, opens=()):
    return LinkStatisticsRecord(
        link_id="lnk_1",
        period={"startAt": None, "endAt": None},
        interval="day",
        timezone="UTC",
        totals=TotalsRecord(clicks=clicks, installs=sum(installs.values())),
        opens_by_method=dict(opens),
        installs_by_method=installs,
        data=[],
        platforms=[],
        countries=[],
    )


def thickness(path):
    """Of a stream at its left and its right end."""
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)]
    left_top, right_top, right_bottom, left_bottom = numbers[1], numbers[7], numbers[9], numbers[-1]
    return left_bottom - left_top, right_bottom - right_top


def test_streams_keep_their_thickness_and_their_proportions():
    flow = flow_of(stats(100, {"install_referrer": 50, "click_token": 25}))
    referrer, token, unmatched = (thickness(stream.path) for stream in flow.streams)
    for left, right in (referrer, token, unmatched):
        assert left == pytest.approx(right, abs=0.02)
    assert referrer[0] == pytest.approx(2 * token[0], abs=0.02)
    assert unmatched[0] == pytest.approx(token[0], abs=0.02)


def test_rows_add_up_to_the_clicks_without_installs_that_had_no_click():
    flow = flow_of(stats(92, {"url": 9, "install_referrer": 10, "click_token": 7}, {"url": 3}))
    assert sum(stream.installs for stream in flow.streams) + flow.unmatched == 92
    assert (flow.direct_installs, flow.direct_opens) == (9, 3)
    assert not flow.has_earlier_clicks


def test_installs_of_clicks_before_the_period_are_named():
    flow = flow_of(stats(1, {"install_referrer": 3}))
    assert (flow.unmatched, flow.has_earlier_clicks) == (0, True)


def test_a_link_without_clicks_has_an_empty_flow():
    [stream] = flow_of(stats(0, {})).streams
    assert stream.path == ""
