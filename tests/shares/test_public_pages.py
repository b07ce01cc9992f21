"""The page, picture and figures of a shared report, for people without an account."""

import re
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import pytest
from structlog.testing import capture_logs

from penstock.base.errors import Unavailable
from penstock.shares import answers
from tests.answers import body_of, problem
from tests.cases import cases
from tests.funnels.scenario import step
from tests.shares.conftest import path_of
from tests.web.reading import without_tags

pytestmark = pytest.mark.usefixtures("warehouse")

SVG = "{http://www.w3.org/2000/svg}"


def test_the_page_shows_the_report_and_leads_nowhere(sharing, stranger):
    sharing.show("plan")
    answer = stranger.get(sharing.path(parameters={"period": "7d"}))
    assert answer.status_code == 200
    text = without_tags(answer.text)
    assert "Checkout" in text
    assert "40.0% 32 of 80 settled" in text
    assert "40.0% of 80 settled visitors completed" not in text
    assert "plan = pro converts 80.0 points better than free" in text
    assert re.search(r"free 50 10.0% .* pro 30 90.0%", text)
    links = re.findall(r'(?:href|action|hx-get)="([^"]*)"', answer.text)
    assert {link for link in links if not link.startswith("/static/")} == {"#main"}


def test_headers_of_the_page(sharing, stranger):
    answer = stranger.get(sharing.path())
    assert "set-cookie" not in answer.headers
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-robots-tag"] == "noindex"
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert '<meta name="robots" content="noindex">' in answer.text


def test_every_link_that_does_not_work_gives_the_same_answer(workspace, sharing, stranger, clock):
    revoked, expired = sharing.share(), sharing.share(expiresAt=clock() + 60_000)
    workspace.client.delete(f"/api/shares/{revoked['id']}").raise_for_status()
    clock.advance(seconds=61)
    paths = [path_of(revoked), path_of(expired), "/s/unknown", "/s/" + "x" * 5_000, "/s/a.b"]
    nonce = re.compile(r'nonce="[^"]*"')
    pages = {nonce.sub("", stranger.get(path).text) for path in paths}
    assert len(pages) == 1
    assert "Ask the person who sent it to you" in without_tags(pages.pop())
    assert {stranger.get(path).status_code for path in paths} == {404}
    pictures = {stranger.get(f"{path}.svg").text for path in paths[:3]}
    assert len(pictures) == 1
    assert "Ask the person who sent it to you" in pictures.pop()
    documents = {stranger.get(f"{path}.json").text for path in paths[:3]}
    assert len(documents) == 1


def test_a_token_is_in_no_log_and_in_no_problem_document(sharing, stranger, monkeypatch):
    path = sharing.path()
    token = path.removeprefix("/s/")
    with capture_logs() as logs:
        assert token not in stranger.post(path, json={}).text
        assert token not in stranger.get(f"{path}/x", headers={"Accept": "text/html"}).text
        monkeypatch.setattr(answers, "read_report", lambda *_: 1 / 0)
        assert stranger.get(f"{path}.json").status_code == 500
    assert token not in repr(logs)


def test_the_picture_is_a_drawing_with_title_and_text(sharing, scene, stranger):
    name = '<script>alert("&")</script>'
    sharing.funnel = scene.funnel(step("A", name=name), "B", name=name)
    path = sharing.path(parameters={"period": "7d"})
    answer = stranger.get(f"{path}.svg")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert answer.headers["cache-control"] == "public, max-age=60"
    drawing = ElementTree.fromstring(answer.text)
    assert drawing.find(f"{SVG}title").text == name
    assert f"{name}: 80" in drawing.find(f"{SVG}desc").text
    assert not list(drawing.iter(f"{SVG}script"))
    assert "prefers-color-scheme:dark" in drawing.find(f"{SVG}style").text
    same = stranger.get(f"{path}.svg", headers={"If-None-Match": answer.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["etag"] == answer.headers["etag"]
    assert name not in stranger.get(path).text


@cases(("window_s", "explains"), [(3600, False), (30 * 86_400, True)])
def test_the_picture_explains_the_part_of_a_bar_that_is_in_progress(
    sharing, scene, stranger, window_s, explains
):
    sharing.funnel = scene.funnel("A", "B", conversionWindowSeconds=window_s)
    picture = stranger.get(f"{sharing.path()}.svg").text
    assert ('class="pending"' in picture) is explains
    assert ("Pale: may still reach" in picture) is explains


@cases("name", ["A\x0bB", "A\x1b[2J", "A\ufffeB", "A\uffffB", "A\u202eB"])
def test_the_picture_is_valid_and_readable_whatever_events_are_called(
    sharing, scene, stranger, name
):
    sharing.funnel = scene.funnel(name, "B\N{FAMILY}\u200d\N{FAMILY}")
    drawing = ElementTree.fromstring(stranger.get(f"{sharing.path()}.svg").content)
    texts = [element.text for element in drawing.iter(f"{SVG}text")]
    assert any(text.startswith("1  A?") for text in texts)
    assert "2  B\N{FAMILY}\u200d\N{FAMILY}" in texts


def test_a_report_is_computed_once_a_minute_however_often_it_is_opened(
    sharing, stranger, clock, monkeypatch
):
    paths, count = [sharing.path(), sharing.path()], 0
    read = answers.read_report

    def counting(*arguments):
        nonlocal count
        count += 1
        return read(*arguments)

    monkeypatch.setattr(answers, "read_report", counting)
    with ThreadPoolExecutor(8) as readers:
        statuses = list(readers.map(lambda path: stranger.get(path).status_code, paths * 20))
    assert set(statuses) == {200}
    assert count == 2
    clock.advance(seconds=60)
    stranger.get(f"{paths[0]}.svg")
    assert count == 3


@cases("ending", ["", ".svg", ".json"])
def test_a_report_that_fails_is_not_computed_again_at_once(sharing, stranger, monkeypatch, ending):
    path, count = sharing.path() + ending, 0

    def failing(*_):
        nonlocal count
        count += 1
        raise Unavailable("secret detail", code="query_timeout")

    monkeypatch.setattr(answers, "read_report", failing)
    for _ in range(3):
        answer = stranger.get(path)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "60"
        assert "secret detail" not in answer.text
    assert count == 1


def test_a_token_opens_no_other_route(workspace, sharing, stranger):
    """A matrix over the whole API document: as bearer and as session cookie."""
    token = sharing.path().removeprefix("/s/")
    document = body_of(workspace.client.get("/api/openapi.json"))
    senders = ({"Authorization": f"Bearer {token}"}, {"Cookie": f"service_session={token}"})
    closed = opened = 0
    for template, methods in document["paths"].items():
        path = re.sub(r"\{[^}]*\}", "x", template)
        for method, operation in methods.items():
            security = operation.get("security", document["security"])
            plain = stranger.request(method, path, json={})
            for headers in senders:
                answer = stranger.request(method, path, json={}, headers=headers)
                if {} in security or not security:
                    opened += 1
                    assert answer.status_code in (plain.status_code, 401), (method, path)
                else:
                    closed += 1
                    assert problem(answer)[0] == 401, (method, path, answer.text)
    assert closed > 200, closed
    assert opened < 80, opened


def test_a_token_is_no_session_of_a_page(sharing, stranger):
    token = sharing.path().removeprefix("/s/")
    answer = stranger.get("/funnels", headers={"Cookie": f"service_session={token}"})
    assert answer.status_code == 302
    assert answer.headers["location"].startswith("/login")
