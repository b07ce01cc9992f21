"""Searching a text for many others at once finds what searching for each finds."""

import time

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.text_search import containing_any

TEXTS = st.text("ab", max_size=12)


@given(st.sets(st.text("abc", min_size=1, max_size=6), max_size=40), TEXTS)
def test_it_finds_what_one_search_for_each_part_finds(parts: set[str], text: str) -> None:
    assert containing_any(parts)(text) == any(part in text for part in parts)


def test_its_time_hardly_grows_with_the_number_of_parts() -> None:
    contains = containing_any([f"stranger-{number:06}" for number in range(100_000)])
    text = "stranger-x" * 100
    began = time.process_time()
    assert not any(contains(text) for _ in range(100))
    assert contains(text + "stranger-000777")
    assert time.process_time() - began < 5
