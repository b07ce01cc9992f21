"""QR codes: the files, what they say, and that a scan is kept as one."""

import re
from io import BytesIO
from xml.etree import ElementTree

import pytest

from tests.links import agents
from tests.links.conftest import LINKS
from tests.tenant import BASE_URL

EDGE = agents.DESKTOP["edge"]


def modules(svg):
    """A code as rows of dark (True) and light modules, read from the strokes of its picture; without the quiet zone of 4 modules."""
    size = int(re.search(r"M0 0h(\d+)v", svg)[1])
    rows = [[False] * size for _ in range(size)]
    x = y = 0.0
    for command, numbers in re.findall(r"([Mmh])([-\d. ]+)", re.search(r'class="qrline"[^>]* d="([^"]+)"', svg)[1]):
        given = [float(number) for number in re.findall(r"-?[\d.]+", numbers)]
        if command == "h":
            rows[int(y)][int(x) : int(x + given[0])] = [True] * int(given[0])
            x += given[0]
        else:
            x, y = (x + given[0], y + given[1]) if command == "m" else given
    return [row[4:-4] for row in rows[4:-4]]


def code_of(address):
    """What a code of this address looks like, from the library's matrix instead of its pictures."""
    import segno

    return [[bool(module) for module in row] for row in segno.make_qr(address, error="m").matrix]


@pytest.fixture
def code(client):
    def code(link, **query):
        return client.get(f"{LINKS}/{link['id']}/qr", params=query)

    return code


def test_the_code_is_a_picture_of_the_short_address_with_the_mark_of_a_scan(code, make_link):
    link = make_link(slug="spring-sale")
    answer = code(link)
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "image/svg+xml")
    assert ElementTree.fromstring(answer.text).tag == "{http://www.w3.org/2000/svg}svg"
    assert modules(answer.text) == code_of(f"{BASE_URL}/l/spring-sale?qr=1")
    assert answer.headers["content-disposition"] == 'inline; filename="spring-sale.svg"'
    assert answer.headers["cache-control"] == "private, max-age=86400"


def test_a_png_has_as_many_pixels_as_the_scale_says(code, make_link):
    link = make_link(slug="spring-sale")
    width = len(code_of(f"{BASE_URL}/l/spring-sale?qr=1")) + 8
    for scale in (1, 8, 40):
        answer = code(link, format="png", scale=scale)
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["content-disposition"] == 'inline; filename="spring-sale.png"'
        head = BytesIO(answer.content).read(24)
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        assert [int.from_bytes(head[start : start + 4]) for start in (16, 20)] == [width * scale] * 2


@pytest.mark.parametrize(
    ("query", "field"), [({"format": "gif"}, "format"), ({"scale": 0}, "scale"), ({"scale": 41}, "scale"), ({"size": 5}, "size")]
)
def test_what_cannot_be_drawn_is_a_400_with_the_parameter(code, make_link, query, field):
    answer = code(make_link(), **query)
    assert (answer.status_code, [fault["field"] for fault in answer.json()["errors"]]) == (400, [field])


def test_a_disabled_link_still_has_its_code(client, code, make_link):
    link = make_link()
    client.patch(LINKS, json={"id": link["id"], "isActive": False})
    assert code(link).status_code == 200


@pytest.mark.parametrize(
    ("query", "scanned"),
    [("?qr=1", True), ("?lk=x&qr=1&utm_source=y", True), ("", False), ("?qr=0", False), ("?qr=12", False), ("?xqr=1", False)],
)
def test_a_scan_is_kept_as_one(make_link, open_link, clicks, query, scanned):
    link = make_link()
    assert open_link(link["slug"] + query).status_code == 200
    assert clicks(link, 1)[0]["qr"] is scanned


def test_the_page_on_a_computer_shows_the_code_and_the_address(make_link, open_link):
    make_link(slug="bare")
    page = open_link("bare", EDGE).text
    assert modules(page) == code_of(f"{BASE_URL}/l/bare?qr=1")
    assert f"<figcaption>{BASE_URL}/l/bare</figcaption>" in page


def test_neither_phones_nor_robots_are_shown_a_code(make_link, open_link):
    make_link(slug="bare")
    for user_agent in (agents.IOS["safari"], agents.ANDROID["chrome"], agents.OTHER_MOBILE["kaios"], "Twitterbot/1.0"):
        assert "<svg" not in open_link("bare", user_agent).text


def test_a_page_with_the_longest_slug_is_below_15_kb(make_link, open_link):
    make_link(slug="a" * 64)
    assert "<svg" in open_link("a" * 64, EDGE).text
    assert len(open_link("a" * 64, EDGE, Accept_Language="ja").content) < 15 * 1024
