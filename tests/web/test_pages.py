"""Pages over HTTP: who may see them, and their headers. tests/browser has the rest."""

import re
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

import penstock.web
from penstock.app import build_routes
from penstock.metadb.named import add_named
from penstock.metadb.tables import funnels
from penstock.web.nav import NAV
from tests.cases import cases
from tests.records import create, event_steps, new_website, send_file
from tests.tenant import visitor
from tests.test_tenancy import cohort, creator, link_into_app, receipt, share, webhook

FUNNEL = {"name": "Sign-up", "steps": event_steps("signed_up", "paid")}
SEGMENT = {"name": "Paying", "filters": [{"property": "plan", "operator": "is_set"}]}
GOAL = {"name": "Paid", "match": {"type": "Event", "value": "paid"}}
WHOLE_PAGES = {"title", "styles", "scripts", "main", "settings"}
"""Blocks that are never rendered as parts."""
OPEN = {
    "/",
    "/login",
    "/login/sso",
    "/login/sso/callback",
    "/reset-password",
    "/reset-password/new",
    "/unsubscribe",
    "/signup",
    "/settings",
    "/s/{name}",
}


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"stored_outcomes": 1})  # for webhooks


def pages(services):
    routes = [
        route
        for route in build_routes(services).routes
        if any(handler.opt.get("page") for handler in getattr(route, "route_handlers", ()))
    ]
    return sorted(route.path_format for route in routes)


def ids_of_records(workspace):
    """Create a record of each kind. Returns their IDs by the names that paths have for them."""
    website = {"websiteId": workspace.website_id}
    chat = {"kind": "chat", "url": "https://chat.example.com/hooks/1"}
    alert = {"condition": {"kind": "lag", "minutes": 15}, "channels": [chat]}
    alert_id = creator("/api/alerts", alert)(workspace)
    test = workspace.browser.post(f"/api/alerts/{alert_id}/test")
    return {
        "website_id": workspace.website_id,
        "alert_id": alert_id,
        "message_id": test.json()["id"],
        "funnel_id": creator("/api/funnels", FUNNEL)(workspace),
        "goal_id": creator("/api/goals", GOAL)(workspace),
        "segment_id": creator("/api/segments", SEGMENT)(workspace),
        "cohort_id": cohort(workspace),
        "receipt_id": receipt(workspace),
        "webhook_id": webhook(workspace),
        "name": share(workspace)["url"].rpartition("/")[2],
        "link_id": link_into_app(workspace),
        "unit": "any",
        "visitor_id": "ann",
        "import_id": send_file(workspace.client, b"{}\n", "application/x-ndjson", website),
    }


def test_every_page_leads_to_the_log_in_and_back(services, server):
    closed = [path for path in pages(services) if path not in OPEN]
    assert len(closed) >= 5
    for path in closed:
        address = re.sub(r"\{\w+\}", "x", path)
        for cookies in ({}, {"Cookie": "service_session=made_up"}):
            answer = visitor(server, cookies).get(f"{address}?page=2")
            assert (answer.status_code, answer.headers["location"]) == (
                302,
                f"/login?next={address}%3Fpage%3D2",
            ), path


def test_a_part_of_a_page_is_401_when_the_session_has_ended(server):
    answer = visitor(server, {"HX-Request": "true", "HX-Target": "keys"}).get("/settings/api-keys")
    assert (answer.status_code, answer.text) == (401, "")


@cases("path", ["/login", "/signup", "/funnels", "/", "/settings/websites"])
def test_a_page_answers_head_like_get_but_without_a_body(workspace, path):
    get, head = workspace.browser.get(path), workspace.browser.head(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    for name in ("content-type", "location", "cache-control"):
        assert head.headers.get(name) == get.headers.get(name)


def test_head_of_a_page_needs_a_session_like_get(server):
    assert visitor(server).head("/funnels").headers["location"] == "/login?next=/funnels"


@pytest.mark.usefixtures("warehouse")
def test_every_record_of_another_workspace_is_a_404_page(services, workspace, other_workspace):
    event = {"websiteId": workspace.website_id, "event": "seen", "visitorId": "ann"}
    workspace.client.post("/api/v1/events", json=event).raise_for_status()
    ids = ids_of_records(workspace)
    for path in (path for path in pages(services) if "{" in path and path not in OPEN):
        shown = workspace.browser.get(path.format_map(ids)).status_code
        assert shown == (302 if "message_id" in path else 200), path
        foreign = other_workspace.browser.get(path.format_map(ids))
        assert (foreign.status_code, foreign.headers["content-type"]) == (
            404,
            "text/html; charset=utf-8",
        ), path


FOREIGN = "of-the-other"


@pytest.mark.usefixtures("warehouse")
def test_no_page_shows_anything_of_another_workspace(services, workspace, other_workspace):
    """With the IDs of its records in every parameter that pages read, and as whole pages do."""
    site = new_website(other_workspace.client, FOREIGN, domain=f"{FOREIGN}.example.com")
    event = {"websiteId": site, "event": FOREIGN, "visitorId": FOREIGN, "userId": FOREIGN}
    other_workspace.client.post("/api/v1/events", json=event).raise_for_status()

    def create_foreign(records, body):
        return create(other_workspace.client, f"/api/{records}", body | {"name": FOREIGN})["id"]

    other_funnel = create_foreign("funnels", FUNNEL)
    create_foreign("goals", GOAL)
    create_foreign("cohorts", {"kind": "list", "funnelId": other_funnel})
    other_segment = create_foreign("segments", SEGMENT)
    own = ids_of_records(workspace)
    foreign = {"websiteId": site, "website": site, "funnelId": other_funnel, "funnel": other_funnel}
    foreign["segment"] = other_segment
    assert FOREIGN in other_workspace.browser.get("/settings/websites").text
    for path in pages(services):
        for query in ({}, foreign):
            answer = workspace.browser.get(path.format_map(own), params=query)
            assert answer.status_code < 500, path
            assert FOREIGN not in answer.text, (path, query)


@cases("path", ["/nowhere", "/funnels/fun_0", "/goals/x/edit"])
def test_a_page_that_does_not_exist_keeps_the_navigation(workspace, path):
    answer = workspace.browser.get(path, headers={"Accept": "text/html"})
    assert answer.status_code == 404
    for entry in NAV[:4]:
        assert f'href="{entry.href}"' in answer.text


def test_readers_without_a_session_see_an_error_without_navigation(server):
    answer = visitor(server, {"Accept": "text/html"}).get("/nowhere")
    assert answer.status_code == 404
    assert 'href="/goals"' not in answer.text


@pytest.mark.usefixtures("warehouse")
@cases("path", ["/funnels", "/goals", "/live", "/visitors", "/attribution"])
def test_pages_of_an_empty_workspace_lead_back_to_the_set_up(workspace, path):
    set_up = f"/welcome/{workspace.website_id}"
    part = {"HX-Request": "true", "HX-Target": "figures"} if path == "/attribution" else {}
    assert f'href="{set_up}"' in workspace.browser.get(path, headers=part).text


def test_connect_leads_to_the_website_that_was_chosen_or_the_first(workspace):
    first, other = workspace.website_id, new_website(workspace.client, "Blog")
    foreign = "web_of_nobody"
    for chosen, expected in ((other, other), (foreign, first), ("", first)):
        answer = workspace.browser.get("/connect", params={"websiteId": chosen})
        assert (answer.status_code, answer.headers["location"]) == (302, f"/welcome/{expected}")
    assert 'href="/connect"' in workspace.browser.get("/goals").text


def test_a_part_is_the_same_as_in_the_whole_page(workspace):
    whole = workspace.browser.get("/settings/api-keys").text
    part = workspace.browser.get(
        "/settings/api-keys", headers={"HX-Request": "true", "HX-Target": "keys"}
    ).text
    assert part.strip().startswith('<div id="keys"')
    assert part.strip() in whole


def test_scripts_and_styles_are_files_of_ours_and_nothing_runs_that_stands_in_the_page(workspace):
    answer = workspace.browser.get("/settings/websites")
    policy = dict(
        rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; ")
    )
    [nonce] = re.findall(r"^'nonce-(.+)'$", policy["script-src"])
    assert (policy["default-src"], policy["style-src"], policy["frame-ancestors"]) == (
        "'none'",
        "'self'",
        "'none'",
    )
    scripts = re.findall(r"<script ([^>]*)>(.*?)</script>", answer.text, re.DOTALL)
    assert scripts
    for attributes, text in scripts:
        assert f'nonce="{nonce}"' in attributes
        assert text == ""
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", answer.text) == []
    assert nonce not in workspace.browser.get("/settings/websites").text
    assert answer.headers["cache-control"] == "no-store"


def test_files_are_kept_for_a_year_under_their_hash_and_are_nowhere_else(server):
    [address] = re.findall(r'href="(/static/[^"]+tokens\.css)"', server.get("/login").text)
    answer = server.get(address)
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
    plain = server.get(address, headers={"Accept-Encoding": "identity"})
    assert (plain.text, "content-encoding" in plain.headers) == (answer.text, False)
    older = server.get("/static/000000000000/tokens.css")
    assert older.status_code == 404


@cases(
    "path", ["nothing.css", "../templates/app.html", "%2e%2e/rendering.py", "vendor/README.md", ""]
)
def test_no_other_file_can_be_read(server, path):
    assert server.get(f"/static/x/{path}").status_code == 404


@cases(
    ("accept", "kind"),
    [("text/html,*/*", "text/html; charset=utf-8"), ("*/*", "application/problem+json")],
)
def test_an_unknown_address_is_a_page_for_people_and_a_problem_for_programs(server, accept, kind):
    answer = server.get("/nowhere", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (404, kind)
    assert (
        server.get("/api/nowhere", headers={"Accept": "text/html"}).headers["content-type"]
        == "application/problem+json"
    )


@cases(
    ("given", "location"),
    [
        ("/settings/api-keys?page=2", "/settings/api-keys?page=2"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/\tevil", "/"),
        ("/a\\b", "/"),
        ("/login?next=/login", "/"),
        ("/api/funnels", "/"),
        ("", "/"),
    ],
)
def test_the_log_in_redirects_only_within_this_host(workspace, given, location):
    answer = workspace.browser.get("/login", params={"next": given})
    assert (answer.status_code, answer.headers["location"]) == (302, location)


def test_the_start_page_redirects_by_progress(server, services, workspace):
    assert visitor(server).get("/").headers["location"] == "/login"
    website_id = workspace.website_id
    assert workspace.browser.get("/").headers["location"] == NAV[0].href
    workspace.client.delete(f"/api/settings/websites/{website_id}")
    assert workspace.browser.get("/").headers["location"] == "/welcome"


def test_before_the_first_account_it_leads_to_the_sign_up(server):
    assert visitor(server).get("/").headers["location"] == "/signup"


def test_parameters_that_a_page_cannot_read_are_left_out(workspace):
    answer = workspace.browser.get(
        "/settings/api-keys", params={"page": "many", "pageSize": "1", "colour": "red"}
    )
    assert answer.status_code == 200
    assert answer.text.count('class="main"') == 1


def test_no_part_needs_what_its_template_defines_outside_the_block():
    """A part is rendered by itself, so there it would be missing."""
    environment, missing = Environment(), list[tuple[str, str, set[str]]]()
    assert penstock.web.__file__ is not None
    for file in (Path(penstock.web.__file__).parent / "templates").rglob("*.html"):
        template = environment.parse(file.read_text("utf-8"))
        outer = {each.name for each in template.body if isinstance(each, nodes.Macro)}
        outer |= {each.target for each in template.body if isinstance(each, nodes.Import)}
        for block in template.find_all(nodes.Block):
            inner = {each.target for each in block.find_all(nodes.Import)}
            used = {each.name for each in block.find_all(nodes.Name) if each.ctx == "load"}
            if block.name not in WHOLE_PAGES and (lost := used & outer - inner):
                missing.append((file.name, block.name, lost))
    assert missing == []


def test_a_choice_of_a_funnel_has_all_funnels(workspace, services):
    with services.database.write() as db:
        row = {"definition": {}, "revision": 1, "created_at": 1, "updated_at": 1}
        for number in range(120):
            own = {"id": f"fun_{number}", "name": f"Funnel {number:03}"}
            add_named(db, funnels, workspace.id, {**row, **own})
    sharing = {"sharedContents": "units"}  # for webhooks
    workspace.browser.patch("/api/settings/workspace", json=sharing).raise_for_status()
    for path in ("/settings/webhooks/new", "/alerts/new", "/attribution"):
        names = re.findall(r"Funnel \d{3}", workspace.browser.get(path).text)
        assert names == sorted(names), path
        assert len(set(names)) == 120, path
