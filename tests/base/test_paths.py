"""Page paths have one canonical form."""

from time import perf_counter
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.paths import page_path

PARTS = st.sampled_from(
    [
        *("/", "/.", "/..", "%", "%2", "%2F", "%2f", "%2e", "%41", "%7e", "%25", "%00", "%C3"),
        *("%c3%a9", "%CC%81", "%3C"),
        *("a", "e", "é", "\u0301", "\u0338", "\u037e", "\u1fef", "\u212a", "\u200d", "\u202e"),
        *(" ", "<", "*", "?", "#", "\x00", "\ud800", "\udcc3", "\ufffe", "\U0010ffff", "F"),
    ]
)
PATHS = st.lists(st.one_of(PARTS, st.characters()), max_size=12).map("".join)


@pytest.mark.parametrize(
    ("spellings", "canonical"),
    [
        (["/café", "/caf%C3%A9", "/caf%c3%a9", "/caf%C3%A9/?x"], "/café"),
        (["/cafe\u0301", "/cafe%CC%81", "/caf%65%cc%81"], "/café"),
        (["/a b", "/a%20b"], "/a%20b"),
        (["/~ann", "/%7Eann", "/%7eann"], "/~ann"),
        (["/a%2Fb", "/a%2fb"], "/a%2Fb"),
        (["/100%", "/100%25"], "/100%25"),
        (["/[slug]", "/%5bslug%5D"], "/%5Bslug%5D"),
        (["/a\u200bb", "/a%e2%80%8bb"], "/a%E2%80%8Bb"),
        (["/%C3", "/%c3"], "/%C3"),
        (["/%ff%C3%A9%ff"], "/%FFé%FF"),
        (["/%3C\u0301", "/<\u0301"], "/%3C\u0301"),
        (["/a%40b"], "/a%40b"),
        (["/a@b"], "/a@b"),
        (["/?q=%C3%A9#é", "//", "", "/..", "/a/..", "/a/../../."], "/"),
        (["/a/./b", "/a/c/../b", "/a/%2e/b/", "/a/c/%2E./b/."], "/a/b"),
        (["/a/..b/.c"], "/a/..b/.c"),
        (["*/café", "*/caf%C3%A9"], "*/café"),
        (["/caf%C3%A9/**/"], "/café/**"),
    ],
)  # fmt: skip
def test_spellings_of_a_path_are_one_path(spellings: list[str], canonical: str) -> None:
    assert [page_path(path) for path in spellings] == [canonical] * len(spellings)


def test_a_path_of_marks_takes_no_time() -> None:
    path = "/a" + "\u0315\u0300\u0334\u0591" * 100_000
    began_s = perf_counter()
    assert page_path(path) == path
    assert perf_counter() - began_s < 5


@given(PATHS)
def test_a_canonical_path_is_its_own_canonical_form(path: str) -> None:
    canonical = page_path(path)
    assert page_path(canonical) == canonical
    canonical.encode()


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="%?#"), max_size=12))
def test_a_path_and_its_encoded_form_are_one_path(text: str) -> None:
    path = "/" + text
    assert page_path(path) == page_path(quote(path, safe="/!$&'()*+,;=:@"))
