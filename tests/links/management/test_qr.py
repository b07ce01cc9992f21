"""QR codes: the files, their content, and the scans that clicks record."""

import re
from io import BytesIO
from xml.etree import ElementTree

import pytest

from tests import user_agents
from tests.answers import faults
from tests.cases import cases
from tests.links.conftest import LINKS
from tests.tenant import BASE_URL

EDGE = user_agents.DESKTOP["edge"]


def modules(svg):
    """The rows of dark (True) and light modules of an SVG, without the quiet zone of 4 modules."""
    size = int(re.search(r"M0 0h(\d+)v", svg)[1])
    rows = [[False] * size for _ in range(size)]
    x = y = 0.0
    for command, numbers in re.findall(
        r"([Mmh])([-\d. ]+)", re.search(r'class="qrline"[^>]* d="([^"]+)"', svg)[1]
    ):
        values = [float(number) for number in re.findall(r"-?[\d.]+", numbers)]
        if command == "h":
            rows[int(y)][int(x) : int(x + values[0])] = [True] * int(values[0])
            x += values[0]
        else:
            x, y = (x + values[0], y + values[1]) if command == "m" else values
    return [row[4:-4] for row in rows[4:-4]]


def expected_modules(address):
    """The modules of a QR code, from the library's matrix instead of its images."""
    import segno

    return [[bool(module) for module in row] for row in segno.make_qr(address, error="m").matrix]


@pytest.fixture
def get_qr_code(client):
    def get_qr_code(link, **query):
        return client.get(f"{LINKS}/{link['id']}/qr", params=query)

    return get_qr_code


def test_the_code_is_an_svg_of_the_short_url_with_the_scan_mark(get_qr_code, make_link):
    link = make_link(slug="spring-sale")
    answer = get_qr_code(link)
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (
        200,
        "image/svg+xml",
    )
    assert ElementTree.fromstring(answer.text).tag == "{http://www.w3.org/2000/svg}svg"
    assert modules(answer.text) == expected_modules(f"{BASE_URL}/l/spring-sale?qr=1")
    assert answer.headers["content-disposition"] == 'inline; filename="spring-sale.svg"'
    assert answer.headers["cache-control"] == "private, max-age=86400"


def test_the_scale_sets_the_pixels_of_a_png(get_qr_code, make_link):
    link = make_link(slug="spring-sale")
    width = len(expected_modules(f"{BASE_URL}/l/spring-sale?qr=1")) + 8
    for scale in (1, 8, 40):
        answer = get_qr_code(link, format="png", scale=scale)
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["content-disposition"] == 'inline; filename="spring-sale.png"'
        head = BytesIO(answer.content).read(24)
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        assert [int.from_bytes(head[start : start + 4]) for start in (16, 20)] == [
            width * scale
        ] * 2


@cases(
    ("query", "field"),
    [
        ({"format": "gif"}, "format"),
        ({"scale": 0}, "scale"),
        ({"scale": 41}, "scale"),
        ({"size": 5}, "size"),
    ],
)
def test_a_bad_parameter_is_400_with_its_name(get_qr_code, make_link, query, field):
    answer = get_qr_code(make_link(), **query)
    assert list(faults(answer, 400)) == [field]


def test_a_disabled_link_has_a_code(client, get_qr_code, make_link):
    link = make_link()
    client.patch(LINKS, json={"id": link["id"], "isActive": False})
    assert get_qr_code(link).status_code == 200


@pytest.mark.usefixtures("warehouse")
@cases(
    ("query", "scanned"),
    [
        ("?qr=1", True),
        ("?lk=x&qr=1&utm_source=y", True),
        ("", False),
        ("?qr=0", False),
        ("?qr=12", False),
        ("?xqr=1", False),
    ],
)
def test_a_scan_is_recorded_as_a_scan(make_link, open_link, clicks, query, scanned):
    link = make_link()
    assert open_link(link["slug"] + query).status_code == 200
    assert clicks(link, 1)[0]["qr"] is scanned


def test_the_page_on_a_computer_shows_the_code_and_the_url(make_link, open_link):
    make_link(slug="bare")
    page = open_link("bare", EDGE).text
    assert modules(page) == expected_modules(f"{BASE_URL}/l/bare?qr=1")
    assert f"<figcaption>{BASE_URL}/l/bare</figcaption>" in page


def test_phones_and_robots_get_no_code(make_link, open_link):
    make_link(slug="bare")
    for user_agent in (
        user_agents.IOS["safari"],
        user_agents.ANDROID["chrome"],
        user_agents.OTHER_MOBILE["kaios"],
        "Twitterbot/1.0",
    ):
        assert "<svg" not in open_link("bare", user_agent).text


def test_a_page_with_the_longest_slug_is_below_15_kb(make_link, open_link):
    make_link(slug="a" * 64)
    assert "<svg" in open_link("a" * 64, EDGE).text
    assert len(open_link("a" * 64, EDGE, Accept_Language="ja").content) < 15 * 1024
