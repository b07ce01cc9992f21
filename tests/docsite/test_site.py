"""`make docs` builds a complete site: every page, no warning, and nothing from another host."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from docsite.__main__ import build
from docsite.pages import (
    HOME,
    ROOT,
    Section,
    all_pages,
    page_text,
    purpose,
    sections,
    site_name,
    title,
)
from docsite.reference import document

from tests.docsite.built import built_site

PAGES = [page for section in sections() for page in section.pages]
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # by MyST
LOADED = {"img": "src", "script": "src", "source": "src", "iframe": "src", "link": "href"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory)


class Requests(HTMLParser):
    """Addresses that a browser loads to show a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(LOADED.get(tag, ""))
        if address:
            self.addresses.add(address)


@pytest.mark.full("builds the site")
@pytest.mark.slow("builds the site")
def test_the_site_has_every_page_and_asks_no_other_host(site: Path) -> None:
    assert (site / "searchindex.js").exists()
    for page in all_pages():
        text = (site / site_name(page).with_suffix(".html")).read_text("utf-8")
        assert (site / site_name(page)).exists()
        addresses = Requests(text).addresses
        assert addresses
        assert {address for address in addresses if re.match(r"(\w+:)?//", address)} == set()
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?!data:)\w+:|@import", styles) == []


@pytest.mark.full("builds the site")
@pytest.mark.slow("builds the site")
def test_llms_txt_lists_every_page_with_its_purpose(site: Path) -> None:
    lines = (site / "llms.txt").read_text("utf-8").splitlines()
    assert lines[0] == "# Penstock"
    assert lines[2] == f"> {purpose(page_text(HOME))}"
    assert [line for line in lines if line.startswith("## ")] == [
        f"## {section.title}" for section in sections()
    ]
    listed = [re.fullmatch(r"- \[(.+)\]\((.+)\): (.+)", line) for line in lines if line[:1] == "-"]
    assert [match and match.groups() for match in listed] == [
        (title(page_text(page)), str(site_name(page)), purpose(page_text(page))) for page in PAGES
    ]
    assert all((site / match[2]).exists() for match in listed if match)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[x](docs/events.md#batches)", 0),
        ("[x](docs/events.md#nowhere)", 1),
        ("[x](#nowhere)", 1),
        ('```json\n{"a: ]}\n```', 1),
    ],
)
def test_a_dead_anchor_or_a_block_that_does_not_parse_fails_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int
) -> None:
    events = Path("docs/events.md")
    texts = {HOME: f"# Penstock\n\n{text}\n", events: "# Events\n\nHow.\n\n## Batches\n"}
    for module in ("source", "__main__"):
        monkeypatch.setattr(f"docsite.{module}.all_pages", lambda: list(texts))
    monkeypatch.setattr("docsite.source.sections", lambda: [Section("Sending", [events])])
    monkeypatch.setattr("docsite.source.page_text", texts.__getitem__)
    assert build(tmp_path) == code


def test_every_page_of_docs_is_in_the_navigation_once() -> None:
    pages = {path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= set(all_pages())
    assert len(all_pages()) == len(set(all_pages()))


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_the_first_line_of_a_page_says_what_it_is_for(path: Path) -> None:
    """Decisions are records; the page that lists them is a page of its own."""
    text = page_text(path)
    assert re.match(r"# [^\n]+\n\n(How|What|When|Which|Why|Every|The)\b", text)
    assert 20 < len(purpose(text)) <= 200


def test_the_reference_describes_the_routes_of_the_running_service(server) -> None:
    assert document() == server.get("/api/openapi.json").json()
