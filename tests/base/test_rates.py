"""Each text of a rate comes from its counts, rounded once."""

from penstock.base.rates import Share, percent, points, rate
from tests.cases import cases


@cases(
    ("part", "whole", "text"),
    [
        (846, 1_379, "61.3%"),  # 0.61348, which is 0.6135 in four decimals
        (1, 16, "6.3%"),  # exactly 6.25, and half of a tenth rounds up as in browsers
        (2, 3, "66.7%"),
        (0, 5, "0.0%"),
        (5, 5, "100.0%"),
    ],
)
def test_the_text_of_a_rate_is_rounded_once(part, whole, text):
    assert percent(Share(part, whole).rate) == text
    assert percent(rate(part, whole)) == text


def test_a_fall_has_the_same_points_as_a_rise():
    assert (points(0.0625), points(-0.0625)) == ("6.3", "−6.3")


@cases(
    ("difference", "text"),
    [(0.098, "+9.8"), (-0.098, "−9.8"), (0.0, "0.0"), (0.0001, "0.0"), (-0.0001, "0.0")],
)
def test_a_signed_difference_has_a_plus_or_a_minus_sign_unless_it_rounds_to_zero(difference, text):
    assert points(difference, signed=True) == text
