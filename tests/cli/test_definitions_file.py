"""`penstock plan` and `penstock apply` as real processes against a real service."""

import json

import pytest

from tests.cli import commands
from tests.proxy import FaultyProxy
from tests.records import create, event_steps, new_website
from tests.serving import error_of, output_of

FILE = """
goals:
  - name: Paid
    match: {type: Transaction, value: purchase}
funnels:
  - name: Checkout
    countingUnit: attempt
    attemptProperty: checkoutId
    steps:
      - {type: Event, value: checkout_started}
      - {type: Goal, value: Paid}
"""


LINKS = """
links:
  - slug: spring-sale
    app: Acme Shop
    name: Spring newsletter
    destinationPath: /offers/42?from=mail
    fallbackUrl: https://www.example.com/offers/42
    utmSource: newsletter
    utmCampaign: spring
    expiresAt: 2027-03-31T22:00:00Z
    tags: [EU, newsletter]
    passQuery: true
  - {slug: winter-sale, app: Acme Shop, name: Winter, destinationPath: /winter, isActive: false}
"""
FILTERS = """
segments:
  - name: Paying
    filters: [{property: plan, operator: not_equals, value: free}]
internalTraffic:
  - {property: email, operator: ends_with, value: "@example.com"}
"""


@pytest.fixture(scope="module")
def service(service):
    service.app = new_website(service.client, "Acme Shop", "mobile")
    return service


@pytest.fixture(autouse=True)
def _empty_workspace(service):
    yield
    assert service.client.put("/api/settings/internal-traffic", json={"filters": []}).is_success
    for kind in ("funnels", "goals", "segments"):
        for record in service.client.get(f"/api/{kind}").json()["data"]:
            assert service.client.delete(f"/api/{kind}/{record['id']}").status_code == 204


@pytest.fixture
def proxy(service):
    between = FaultyProxy(int(service.url.rsplit(":", 1)[1]))
    yield between
    between.close()


def run(service, *arguments, proxy=None):
    through = {"PENSTOCK_URL": f"http://127.0.0.1:{proxy.port}"} if proxy else {}
    return commands.run(service, *arguments, **through)


def apply(service, *arguments, **more):
    """Apply a file. Returns the output."""
    return output_of(run(service, "apply", *arguments, **more))


def written(tmp_path, text=FILE):
    file = tmp_path / "funnels.yml"
    file.write_text(text, "utf-8")
    return file


def faulty_lines(service, *arguments):
    """Plan or apply a file with something that cannot be applied. Returns the lines."""
    ended = run(service, *arguments)
    assert ended.returncode == 1, ended.stderr
    return ended.stdout.splitlines()


def applied(service, tmp_path, text=FILE):
    """Write and apply a file."""
    file = written(tmp_path, text)
    apply(service, file)
    return file


def names(service, kind):
    return {record["name"]: record for record in service.client.get(f"/api/{kind}").json()["data"]}


def test_a_plan_shows_changes_and_makes_none(service, tmp_path):
    file = written(tmp_path)
    output = output_of(run(service, "plan", file))
    assert output.splitlines() == [
        "+ goal Paid",
        "+ funnel Checkout",
        "2 to create, 0 to change, 0 unchanged, 0 changed elsewhere.",
    ]
    assert names(service, "funnels") == {}
    assert list(tmp_path.iterdir()) == [file]


def test_apply_creates_changes_and_keeps(service, tmp_path):
    file = applied(service, tmp_path)
    before = names(service, "funnels")["Checkout"]
    assert [step["type"] for step in before["steps"]] == ["Event", "Goal"]
    assert "2 unchanged" in run(service, "apply", file).stdout
    assert names(service, "funnels")["Checkout"] == before
    written(tmp_path, FILE.replace("checkout_started", "cart_opened"))
    assert "~ funnel Checkout" in run(service, "plan", file).stdout
    apply(service, file)
    after = names(service, "funnels")["Checkout"]
    assert (after["steps"][0]["value"], after["revision"]) == ("cart_opened", 2)


def test_a_funnel_that_changed_elsewhere_is_named_and_kept(service, tmp_path):
    file = written(tmp_path)
    run(service, "apply", file)
    funnel = names(service, "funnels")["Checkout"]
    body = {"name": "Checkout", "steps": event_steps("by_hand", "paid")}
    path = f"/api/funnels/{funnel['id']}"
    assert service.client.put(path, json=body).status_code == 200
    written(tmp_path, FILE.replace("checkout_started", "cart_opened"))
    reason = "! funnel Checkout: it was changed elsewhere: revision 2, last applied 1"
    for command in ("plan", "apply"):
        assert faulty_lines(service, command, file)[1] == reason
    assert names(service, "funnels")["Checkout"]["steps"][0]["value"] == "by_hand"
    apply(service, file, "--force")
    assert names(service, "funnels")["Checkout"]["steps"][0]["value"] == "cart_opened"
    assert "2 unchanged" in run(service, "plan", file).stdout


def test_a_goal_that_changed_elsewhere_is_named_and_kept(service, tmp_path):
    file = written(tmp_path)
    run(service, "apply", file)
    goal = names(service, "goals")["Paid"]
    match = {"match": {"type": "Event", "value": "by_hand"}}
    assert service.client.patch(f"/api/goals/{goal['id']}", json=match).status_code == 200
    [goal_line, *_] = faulty_lines(service, "apply", file)
    assert goal_line.startswith("! goal Paid: it was changed elsewhere: revision 2")
    assert names(service, "goals")["Paid"]["match"]["value"] == "by_hand"


def test_records_that_were_never_applied_are_adopted_only_if_they_are_the_same(service, tmp_path):
    file = written(tmp_path)
    goal = {"name": "Paid", "match": {"type": "Transaction", "value": "purchase"}}
    create(service.client, "/api/goals", goal)
    create(service.client, "/api/funnels", {"name": "Checkout", "steps": event_steps("a", "b")})
    assert faulty_lines(service, "apply", file)[:2] == [
        "= goal Paid",
        "! funnel Checkout: it exists with another definition, at revision 1",
    ]


def test_no_apply_chooses_among_records_of_one_name(service, tmp_path):
    for _ in range(2):
        funnel = {"name": "Checkout", "steps": event_steps("a", "b")}
        create(service.client, "/api/funnels", funnel)
    lines = faulty_lines(service, "apply", written(tmp_path), "--force")
    assert "! funnel Checkout: the workspace has 2 funnels with this name" in "\n".join(lines)
    assert len(service.client.get("/api/funnels").json()["data"]) == 2


def test_a_name_that_left_the_file_is_mentioned_and_not_deleted(service, tmp_path):
    file = written(tmp_path)
    run(service, "apply", file)
    written(tmp_path, FILE[: FILE.index("funnels:")])
    result = run(service, "apply", file)
    assert "? funnel Checkout: no longer in the file; it is not deleted" in result.stdout
    assert "Checkout" in names(service, "funnels")


def test_an_invalid_funnel_ends_the_plan_with_its_faults(service, tmp_path):
    file = written(tmp_path, "funnels:\n  - {name: Short, steps: [{type: Event, value: a}]}\n")
    error = error_of(run(service, "plan", file))
    assert error.startswith(f"penstock: {file}:2: funnel Short: steps: ")


def link(service, slug):
    for state in ("", "&state=archived"):
        path = f"/api/mobile/deferred-links?search={slug}{state}"
        for record in service.client.get(path).json()["data"]:
            if record["slug"] == slug:
                return record
    return None


def change_link(service, slug, **changes):
    body = {"id": link(service, slug)["id"], **changes}
    assert service.client.patch("/api/mobile/deferred-links", json=body).status_code == 200


def test_links_are_created_with_all_fields_changed_and_left_alone(service, tmp_path):
    file = written(tmp_path, LINKS)
    output = output_of(run(service, "plan", file))
    assert output.splitlines()[:2] == [
        "+ link spring-sale",
        "+ link winter-sale",
    ]
    assert link(service, "spring-sale") is None
    apply(service, file)
    spring = link(service, "spring-sale")
    assert {name: spring[name] for name in ("websiteId", "name", "utmMedium", "expiresAt")} == {
        "websiteId": service.app,
        "name": "Spring newsletter",
        "utmMedium": None,
        "expiresAt": "2027-03-31T22:00:00.000Z",
    }
    assert (spring["tags"], spring["passQuery"]) == (["eu", "newsletter"], True)
    assert (spring["isActive"], link(service, "winter-sale")["isActive"]) == (True, False)
    assert "0 to change, 2 unchanged" in run(service, "apply", file).stdout
    assert link(service, "spring-sale") == spring
    written(
        tmp_path,
        LINKS.replace("/offers/42?from=mail", "/offers/43").replace(
            "    utmCampaign: spring\n", ""
        ),
    )
    assert run(service, "plan", file).stdout.startswith("~ link spring-sale\n= link winter-sale")
    apply(service, file)
    changed = link(service, "spring-sale")
    assert (changed["destinationPath"], changed["utmCampaign"]) == ("/offers/43", None)
    assert (changed["id"], changed["revision"]) == (spring["id"], 2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"destinationPath": "/by-hand"}, "revision 2, last applied 1"),
        ({"tags": ["by-hand"], "isArchived": True}, "tags and isArchived"),
    ],
)
def test_a_link_that_changed_elsewhere_is_named_and_kept(service, tmp_path, changes, reason):
    slug = f"drift-{len(changes)}"
    links = LINKS[: LINKS.index("  - {slug")].replace("spring-sale", slug)
    file = applied(service, tmp_path, links)
    change_link(service, slug, **changes)
    for command in ("plan", "apply"):
        expected = f"! link {slug}: it was changed elsewhere: {reason}"
        assert faulty_lines(service, command, file)[0] == expected
    assert changes.items() <= link(service, slug).items()
    apply(service, file, "--force")
    assert (link(service, slug)["tags"], link(service, slug)["isArchived"]) == (
        ["eu", "newsletter"],
        False,
    )
    assert "1 unchanged" in run(service, "plan", file).stdout


def test_a_link_from_elsewhere_is_adopted_only_if_it_is_the_same(service, tmp_path):
    body = {"slug": "adopted", "name": "Adopted", "destinationPath": "/a", "tags": ["a"]}
    new = {**body, "websiteId": service.app}
    create(service.client, "/api/mobile/deferred-links", new)
    text = "links:\n  - {slug: adopted, app: Acme Shop, name: Adopted, destinationPath: /a"
    file = written(tmp_path, f"{text}, tags: [A]}}\n")
    assert run(service, "plan", file).stdout.startswith("= link adopted\n")
    written(tmp_path, f"{text}}}\n")
    expected = "! link adopted: it exists with another definition, at revision 1"
    assert faulty_lines(service, "apply", file)[0] == expected


def test_a_disabled_link_is_created_with_one_request(service, tmp_path, proxy):
    """A second request could fail, and leave a link that is enabled and that the next plan calls
    changed elsewhere.
    """
    proxy.refuse_requests("PATCH ")
    fields = "app: Acme Shop, name: Once, destinationPath: /a, isActive: false, isArchived: true"
    file = written(tmp_path, f"links:\n  - {{slug: once, {fields}}}\n")
    apply(service, file, proxy=proxy)
    assert [link(service, "once")[name] for name in ("isActive", "isArchived")] == [False, True]
    assert "1 unchanged" in run(service, "plan", file).stdout


def test_segments_and_internal_traffic_are_created_changed_and_left_alone(service, tmp_path):
    file = written(tmp_path, FILTERS)
    assert run(service, "plan", file).stdout.splitlines() == [
        "+ segment Paying",
        "+ internal traffic",
        "2 to create, 0 to change, 0 unchanged, 0 changed elsewhere.",
    ]
    apply(service, file)
    assert names(service, "segments")["Paying"]["filters"][0]["value"] == "free"
    setting = service.client.get("/api/settings/internal-traffic").json()
    assert [each["value"] for each in setting["filters"]] == ["@example.com"]
    assert "2 unchanged" in run(service, "apply", file).stdout
    written(tmp_path, FILTERS.replace("free", "trial").replace("@example.com", "@acme.example"))
    assert run(service, "plan", file).stdout.startswith("~ segment Paying\n~ internal traffic")
    apply(service, file)
    assert names(service, "segments")["Paying"]["revision"] == 2
    assert service.client.put("/api/settings/internal-traffic", json={"filters": []}).is_success
    changed = faulty_lines(service, "plan", file)[1]
    assert changed.startswith("! internal traffic: it was changed elsewh")


def test_only_delete_deletes_and_never_what_changed_elsewhere(service, tmp_path):
    text = FILE + LINKS.replace("-sale", "-gone") + FILTERS
    file = applied(service, tmp_path, text)
    written(tmp_path, "goals: []\n")
    without = apply(service, file)
    assert "? link spring-gone: no longer in the file; it is not deleted" in without
    assert "Run the command with --delete" in without
    assert names(service, "funnels").keys() == {"Checkout"}
    change_link(service, "winter-gone", name="By hand")
    assert faulty_lines(service, "plan", file, "--delete") == [
        "- internal traffic",
        "- link spring-gone",
        "! link winter-gone: it was changed elsewhere: revision 2, last applied 1",
        "- funnel Checkout",
        "- goal Paid",
        "- segment Paying",
        "0 to create, 0 to change, 5 to delete, 0 unchanged, 1 changed elsewhere.",
    ]
    assert names(service, "funnels").keys() == {"Checkout"}
    assert run(service, "apply", file, "--delete").returncode == 1
    assert not names(service, "funnels") | names(service, "goals") | names(service, "segments")
    assert service.client.get("/api/settings/internal-traffic").json()["filters"] == []
    states = ("isActive", "isArchived")
    assert [link(service, "spring-gone")[name] for name in states] == [False, True]
    assert [link(service, "winter-gone")[name] for name in states] == [False, False]
    apply(service, file, "--delete", "--force")
    assert link(service, "winter-gone")["isArchived"]
    assert run(service, "plan", file, "--delete").stdout.startswith("0 to create")


def test_delete_never_deletes_what_was_adopted(service, tmp_path):
    goal = {"name": "Paid", "match": {"type": "Transaction", "value": "purchase"}}
    create(service.client, "/api/goals", goal)
    body = {"slug": "not-ours", "name": "A", "destinationPath": "/a", "websiteId": service.app}
    create(service.client, "/api/mobile/deferred-links", body)
    filters = [{"property": "email", "operator": "ends_with", "value": "@example.com"}]
    setting = service.client.put("/api/settings/internal-traffic", json={"filters": filters})
    assert setting.is_success
    links = "links:\n  - {slug: not-ours, app: Acme Shop, name: A, destinationPath: /a}\n"
    file = written(tmp_path, FILE + links + FILTERS)
    assert "2 to create, 0 to change, 3 unchanged" in run(service, "apply", file).stdout
    written(tmp_path, FILE.replace("purchase", "paid") + links + FILTERS)
    assert run(service, "apply", file).returncode == 0  # also a changed record stays adopted
    written(tmp_path, "goals: []")
    for is_mentioned in (True, False):
        output = apply(service, file, "--delete")
        for label in ("goal Paid", "link not-ours", "internal traffic"):
            text = f"? {label}: no longer in the file; it is not deleted, because"
            assert (text in output) is is_mentioned
    assert names(service, "goals").keys() == {"Paid"}
    assert not names(service, "funnels") | names(service, "segments")
    assert link(service, "not-ours")["isActive"]
    setting = service.client.get("/api/settings/internal-traffic").json()
    assert [each["value"] for each in setting["filters"]] == ["@example.com"]


@pytest.mark.parametrize("text", [LINKS.replace("newsletter]", "mail]"), "goals: []"])
def test_a_link_whose_tags_change_after_the_comparison_is_kept(service, tmp_path, proxy, text):
    slug = f"race-{len(text)}"

    def with_slugs(links):
        return links.replace("spring-sale", slug).replace("winter-sale", f"w{slug}")

    file = applied(service, tmp_path, with_slugs(LINKS))
    written(tmp_path, with_slugs(text))
    proxy.run_before("PATCH ", lambda: change_link(service, slug, tags=["by-hand"]))
    line = 1 if text == "goals: []" else 3
    expected = f"penstock: {file}:{line}: link {slug}: The link was changed elsewhere in the"
    assert error_of(run(service, "apply", file, "--delete", proxy=proxy)).startswith(expected)
    assert [link(service, slug)[name] for name in ("tags", "isActive")] == [["by-hand"], True]


def test_an_apply_that_cannot_record_its_changes_makes_none(service, tmp_path):
    file = written(tmp_path)
    (tmp_path / "funnels.yml.applied.json.part").mkdir()
    assert "funnels.yml.applied.json cannot be written: " in error_of(run(service, "apply", file))
    assert names(service, "funnels") == names(service, "goals") == {}
    assert "2 to create" in run(service, "plan", file).stdout


CHANGES = {
    "funnels": lambda service, path: service.client.put(
        path, json={"name": "Checkout", "steps": [{"type": "Event", "value": "a"}] * 2}
    ),
    "goals": lambda service, path: service.client.patch(
        path, json={"match": {"type": "Event", "value": "by_hand"}}
    ),
}


@pytest.mark.parametrize(("kind", "name"), [("funnels", "Checkout"), ("goals", "Paid")])
def test_what_changes_after_the_comparison_is_not_deleted(service, tmp_path, proxy, kind, name):
    file = applied(service, tmp_path, FILE)
    written(tmp_path, f"segments: []\n{kind}: []\n" if kind == "funnels" else "goals: []\n")
    path = f"/api/{kind}/{names(service, kind)[name]['id']}"
    proxy.run_before(f"DELETE {path}", lambda: CHANGES[kind](service, path))
    line = 2 if kind == "funnels" else 1
    expected = (
        f"penstock: {file}:{line}: {kind.removesuffix('s')} {name}: The record has revision 2"
    )
    assert error_of(run(service, "apply", file, "--delete", proxy=proxy)).startswith(expected)
    assert names(service, kind)[name]["revision"] == 2


def test_internal_traffic_that_changes_after_the_comparison_is_kept(service, tmp_path, proxy):
    file = applied(service, tmp_path, FILTERS)
    filters = [{"property": "plan", "operator": "equals", "value": "by_hand"}]
    path = "/api/settings/internal-traffic"

    def change():
        assert service.client.put(path, json={"filters": filters}).is_success

    for text, line in ((FILTERS.replace("@example.com", "@acme.example"), 5), ("goals: []", 1)):
        written(tmp_path, text)
        proxy.run_before(f"PUT {path}", change)
        expected = f"penstock: {file}:{line}: internal traffic: The record has revision"
        assert error_of(run(service, "apply", file, "--delete", proxy=proxy)).startswith(expected)
        assert service.client.get(path).json()["filters"] == filters
        filters = [{**filters[0], "value": "again"}]
        run(service, "apply", file, "--force")


def test_every_fault_has_its_file_line_definition_and_field(service, tmp_path):
    text = """goals:
  - name: Paid
    match:
      type: Transaktion
      value: purchase
segments:
  - name: Paying
    filters:
      - {property: plan, operator: equals, value: free}
      - {property: plan, operator: is, value: free}
funnels:
  - name: Checkout
    steps:
      - {type: Event, value: a}
      - type: Event
        value: b
        filters:
          - property: plan
            operator: equals
            value: yes
links:
  - slug: faulty
    app: Acme Shop
    name: Faulty
    destinationPath: //elsewhere
    fallbackUrl: http://localhost/
internalTraffic:
  - {property: email, operator: ends_with, value: 7}
"""
    file = written(tmp_path, text)
    result = run(service, "plan", file)
    assert result.returncode == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert [": ".join(line.split(": ")[1:4]) for line in lines] == [
        f"{file}:10: segment Paying: filters[1].operator",
        f"{file}:4: goal Paid: match.type",
        f"{file}:20: funnel Checkout: steps[1].filters[0].value",
        f"{file}:28: internal traffic: internalTraffic[0].value",
        f"{file}:26: link faulty: fallbackUrl",
        f"{file}:25: link faulty: destinationPath",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("app: Elsewhere, name: A", "app: The workspace has no app with the name or ID Elsewhere."),
        ("app: Shop, name: A", "app: The workspace has no app with this ID."),
        ("name: A", "app: Name the app of the link."),
        ("app: Acme Shop, name: 7", "name: Must be a text."),
        ("app: Acme Shop, name: A, tags: eu", "tags: Must be a list of texts."),
        ("app: Acme Shop, name: A, tags: ['a,b']", "tags: A tag must not contain a comma."),
        ("app: Acme Shop, name: A, passQuery: 1", "passQuery: Must be true or false."),
        ("app: Acme Shop, name: A, url: /a", "url: There is no such field. A link has slug, app,"),
        ("app: Acme Shop", "name: "),
    ],
)
def test_a_faulty_link_names_its_field(service, tmp_path, fields, message):
    text = f"links:\n  - {{slug: faulty, destinationPath: /a, {fields}}}\n"
    file = written(tmp_path, text)
    assert f"penstock: {file}:2: link faulty: {message}" in error_of(run(service, "apply", file))
    assert link(service, "faulty") is None


def test_the_app_of_a_link_never_changes(service, tmp_path):
    new_website(service.client, "Other app", "mobile")
    text = "links:\n  - {slug: fixed, app: Acme Shop, name: A, destinationPath: /a}\n"
    file = applied(service, tmp_path, text)
    written(tmp_path, text.replace("Acme Shop", "Other app"))
    assert f"{file}:2: link fixed: app: Cannot be changed" in error_of(run(service, "plan", file))


TEN = ", ".join(["*a{}"] * 10)
BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{TEN}]\n".replace("{}", str(n - 1)) for n in range(1, 30)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [{TEN}]\n".replace("{}", str(n - 1)) for n in range(1, 30)
)
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 400))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("goals: [", "funnels.yml:1: this is not valid YAML"),
        ("goals: []\ndashboards: []", "funnels.yml:2: dashboards is not one of the lists"),
        ("goals: [{match: {}}]", "funnels.yml:1: each entry of goals needs a name"),
        ("goals:\n- {name: A}\n- {name: A}", "funnels.yml:3: goals has the name A twice"),
        ("links:\n- {name: A}", "funnels.yml:2: each entry of links needs a slug"),
        ("goals: 7", "funnels.yml:1: goals must be a list"),
        ("", "funnels.yml:1: the file must have one or more of the lists segments, goals"),
        ("!!python/object/apply:os.getcwd []", "funnels.yml:1: this is not valid YAML"),
        ("goals: [{name: A, match: !!binary aGk=}]", "is not valid YAML with values of JSON"),
        ("goals: [{name: A, match: .nan}]", "is not valid YAML with values of JSON"),
        (
            "goals:\n- name: A\n  7: x",
            "funnels.yml:3: this is not valid YAML: a key must be text",
        ),
        ("goals:\n- {name: A, match: {yes: x}}", "funnels.yml:2: this is not valid YAML: a key"),
        ("? [goals]\n: []", "funnels.yml:1: this is not valid YAML: a key must be text"),
        (
            "goals: [{name: A}]\nlinks: []\ngoals: [{name: B}]",
            "funnels.yml:3: this is not valid YAML: goals is already on line 1; keep one of them",
        ),
        ("goals:\n- {name: A, name: B}", "funnels.yml:2: this is not valid YAML: name is already"),
        (BOMB, "funnels.yml:6: this is not valid YAML: with its aliases, it has more than 200,000"),
        (MERGES, "funnels.yml:11: this is not valid YAML: with its aliases, it has more than"),
        ("goals: " + "[" * 100_000, "funnels.yml:1: this is not valid YAML: it is nested more"),
        (CHAIN, "funnels.yml:50: this is not valid YAML: it is nested more than 50 levels deep"),
        ("goals:\n- &a [*a]", "funnels.yml:2: this is not valid YAML: an alias repeats what it is"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(service, tmp_path, text, message):
    assert message in error_of(run(service, "plan", written(tmp_path, text)), 2)


def test_a_damaged_record_of_revisions_says_what_to_do(service, tmp_path):
    file = written(tmp_path)
    (tmp_path / "funnels.yml.applied.json").write_text(json.dumps({"goals": 7}), "utf-8")
    assert "is damaged; delete it" in error_of(run(service, "plan", file))
