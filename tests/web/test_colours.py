"""The colours of segments: on the card, in both themes and for each kind of colour vision."""

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOKENS = (ROOT / "src/penstock/web/static/tokens.css").read_text()
SEGMENTS = 6
MIN_CONTRAST = 3.0
MIN_DISTANCE = 8.0
"""In hundredths of OKLab; 2 is a difference that people just see side by side."""

# Machado, Oliveira and Fernandes (2009): what complete colour blindness leaves of linear RGB.
VISIONS = {
    "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.01182, 0.04294, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.3039),
    ),
}
Linear = Sequence[float]


def token(name: str, theme: int) -> Linear:
    """Return a colour in linear RGB. theme: 0 light, 1 dark."""
    both = re.search(rf"--{name}: light-dark\(#(\w{{6}}), #(\w{{6}})\)", TOKENS)
    assert both, name
    parts = [int(both[theme + 1][at : at + 2], 16) / 255 for at in (0, 2, 4)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def segments(theme: int) -> list[Linear]:
    return [token(f"series-{number}", theme) for number in range(1, SEGMENTS + 1)]


def luminance(colour: Linear) -> float:
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]


def times(matrix: Sequence[Linear], vector: Linear) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def oklab(colour: Linear) -> list[float]:
    to_cones = (
        (0.4122214708, 0.5363325363, 0.0514459929),
        (0.2119034982, 0.6806995451, 0.1073969566),
        (0.0883024619, 0.2817188376, 0.6299787005),
    )
    to_lab = (
        (0.2104542553, 0.7936177850, -0.0040720468),
        (1.9779984951, -2.4285922050, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.8086757660),
    )
    seen = [min(1.0, max(0.0, part)) for part in colour]
    return times(to_lab, [part ** (1 / 3) for part in times(to_cones, seen)])


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_each_segment_stands_out_from_the_card(theme: int) -> None:
    card = luminance(token("surface", theme))
    for number, colour in enumerate(segments(theme), 1):
        low, high = sorted((card, luminance(colour)))
        assert (high + 0.05) / (low + 0.05) >= MIN_CONTRAST, number


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_segments_stay_apart_for_each_kind_of_colour_vision(theme: int, vision: str) -> None:
    seen = [oklab(times(VISIONS[vision], colour)) for colour in segments(theme)]
    for (first, a), (second, b) in combinations(enumerate(seen, 1), 2):
        distance = 100 * sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5
        assert distance >= MIN_DISTANCE, (first, second)
