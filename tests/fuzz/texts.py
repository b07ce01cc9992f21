"""Random hostile texts and bytes: pieces of valid input mixed with arbitrary characters."""

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**400])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=8), values),
    max_leaves=12,
)
"""Any JSON value, including numbers at the limits of number types."""


def spliced(*pieces: str) -> st.SearchStrategy[str]:
    """Generate texts of these pieces in any order, with other characters between them."""
    return st.lists(st.sampled_from(pieces) | st.text(max_size=3), max_size=12).map("".join)


def repeated(*pieces: str, max_chars: int = 20_000) -> st.SearchStrategy[str]:
    """Generate long texts of repeated pieces. They expose code that takes more than linear time."""

    def long_text(start: str, middle: Sequence[str], end: str) -> str:
        unit = "".join(middle)
        return start + unit * (max_chars // max(1, len(unit))) + end

    ends = st.sampled_from(("", *pieces)) | st.text(max_size=2)
    middle = st.lists(st.sampled_from(pieces) | st.text(max_size=2), min_size=1, max_size=4)
    return st.builds(long_text, ends, middle, ends)


def texts(*pieces: str, max_chars: int = 20_000) -> st.SearchStrategy[str]:
    return st.text() | spliced(*pieces) | repeated(*pieces, max_chars=max_chars)


def objects(*fields: str) -> st.SearchStrategy[dict[str, Any]]:
    """Generate objects with some of these fields and arbitrary values, and occasionally an unknown
    field.
    """
    names = st.sampled_from(fields) | st.text(max_size=6)
    return st.dictionaries(names, JSON_VALUES, max_size=10)


def _broken(encode: Callable[[Any], bytes]) -> st.SearchStrategy[bytes]:
    """Generate encoded values with some bytes changed, cut off or added."""

    def change(value: Any, at: int, other: bytes, cut: int | None) -> bytes:
        content = encode(value)
        at %= len(content) + 1
        return (content[:at] + other + content[at + len(other) :])[:cut]

    return st.builds(
        change,
        JSON_VALUES,
        st.integers(0, 300),
        st.binary(max_size=4),
        st.none() | st.integers(0, 100),
    )


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


JSON_BODIES = (
    st.binary()
    | _broken(_json)
    | repeated("[", '{"a":', "1,", '"').map(lambda text: text.encode("utf-8", "surrogatepass"))
)
GZIP_BODIES = st.binary() | _broken(lambda value: gzip.compress(_json(value)))
HEADER_VALUES = st.text(st.characters(max_codepoint=255, exclude_characters="\0\r\n"), max_size=300)
"""Header values as servers decode them: ISO 8859-1 without line breaks."""
