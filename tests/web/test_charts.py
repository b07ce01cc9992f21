"""The lines of charts: settled rates as a line, open ones as a band of what is still possible."""

import pytest

from penstock.funnels.results.schema import RangeRecord
from penstock.funnels.trends import TrendBucketRecord
from penstock.web.pages.charts import earlier_rates, rates


def bucket(rate, final=None, *, maturing=False):
    return TrendBucketRecord.model_construct(
        conversion_rate=rate,
        settled_rate=None if maturing else rate,
        between=None,
        final_rate=None if final is None else RangeRecord(lower=final[0], upper=final[1]),
        maturing=maturing,
    )


SETTLED = [bucket(0.4), bucket(0.6)]
OPEN = [bucket(0.3, (0.3, 0.5), maturing=True), bucket(None, maturing=True)]


@pytest.mark.parametrize(
    ("buckets", "values", "lower", "upper"),
    [
        (SETTLED, [0.4, 0.6], None, None),
        (
            SETTLED + OPEN,
            [0.4, 0.6, None, None],
            [None, 0.6, 0.3, None],
            [None, 0.6, 0.5, None],
        ),
        (OPEN, [None, None], [0.3, None], [0.5, None]),
        ([bucket(None), *OPEN], [None] * 3, [None, 0.3, None], [None, 0.5, None]),
        ([], [], None, None),
    ],
)
def test_a_line_of_settled_rates_continues_as_a_band(buckets, values, lower, upper):
    series = rates(buckets, "Rate")
    assert (series["values"], series.get("least"), series.get("most")) == (values, lower, upper)


def test_without_a_window_all_rates_belong_to_the_line():
    series = rates([*SETTLED, bucket(0.2, maturing=True)], "Rate", has_window=False)
    assert series == {"label": "Rate", "values": [0.4, 0.6, 0.2], "style": "percent"}


def test_an_earlier_period_is_a_dashed_line_of_settled_rates():
    series = earlier_rates(SETTLED + OPEN, "Earlier period")
    assert series["values"] == [0.4, 0.6, None, None]
    assert series["line"] == "dashed"
