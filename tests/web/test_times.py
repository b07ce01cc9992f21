"""The bins of the times between two steps: equal, round, and fit for most times."""

import pytest

from penstock.funnels.timing import DurationsRecord
from penstock.web.pages.report.panels.times import _bin_length_s


@pytest.mark.parametrize(
    ("median_minutes", "p90_minutes", "length_s"),
    [
        (None, None, 1),
        (0.01, 0.05, 1),
        (4, 9.4, 60),
        (4, 10_000, 120),  # a few very long times
        (1_000, 3_000, 6 * 3600),
        (10**7, 10**7, 365 * 86_400),
    ],
)
def test_bins_are_round_and_fit_nine_of_ten_times(median_minutes, p90_minutes, length_s):
    durations = DurationsRecord.model_construct(
        median_minutes=median_minutes, p90_minutes=p90_minutes
    )
    assert _bin_length_s(durations) == length_s
