"""`penstock plan` and `penstock apply` as real processes against a real service."""

import json

import pytest

from tests.serving import Served, penstock

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


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("definitions") / "data") as running:
        running.key, running.website = running.first_account()
        yield running


@pytest.fixture(autouse=True)
def _empty_workspace(service):
    yield
    for kind in ("funnels", "goals"):
        for record in service.client.get(f"/api/{kind}").json()["data"]:
            assert service.client.delete(f"/api/{kind}/{record['id']}").status_code == 204


def run(service, *arguments):
    keys = {"PENSTOCK_URL": service.url, "PENSTOCK_API_KEY": service.key}
    return penstock(*map(str, arguments), **keys)


def written(tmp_path, text=FILE):
    file = tmp_path / "funnels.yml"
    file.write_text(text, "utf-8")
    return file


def names(service, kind):
    return {record["name"]: record for record in service.client.get(f"/api/{kind}").json()["data"]}


def test_a_plan_shows_changes_and_makes_none(service, tmp_path):
    file = written(tmp_path)
    result = run(service, "plan", file)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "+ goal Paid",
        "+ funnel Checkout",
        "2 to create, 0 to change, 0 unchanged, 0 changed elsewhere.",
    ]
    assert names(service, "funnels") == {}
    assert list(tmp_path.iterdir()) == [file]


def test_apply_creates_changes_and_keeps(service, tmp_path):
    file = written(tmp_path)
    assert run(service, "apply", file).returncode == 0
    before = names(service, "funnels")["Checkout"]
    assert [step["type"] for step in before["steps"]] == ["Event", "Goal"]
    assert "2 unchanged" in run(service, "apply", file).stdout
    assert names(service, "funnels")["Checkout"] == before
    written(tmp_path, FILE.replace("checkout_started", "cart_opened"))
    assert "~ funnel Checkout" in run(service, "plan", file).stdout
    assert run(service, "apply", file).returncode == 0
    after = names(service, "funnels")["Checkout"]
    assert (after["steps"][0]["value"], after["revision"]) == ("cart_opened", 2)


def test_a_funnel_that_changed_elsewhere_is_named_and_kept(service, tmp_path):
    file = written(tmp_path)
    run(service, "apply", file)
    funnel = names(service, "funnels")["Checkout"]
    steps = [{"type": "Event", "value": "by_hand"}, {"type": "Event", "value": "paid"}]
    body = {"name": "Checkout", "steps": steps}
    path = f"/api/funnels/{funnel['id']}"
    assert service.client.put(path, json=body).status_code == 200
    written(tmp_path, FILE.replace("checkout_started", "cart_opened"))
    reason = "! funnel Checkout: it was changed elsewhere: revision 2, last applied 1"
    for command in ("plan", "apply"):
        result = run(service, command, file)
        assert (result.returncode, result.stdout.splitlines()[1]) == (1, reason)
    assert names(service, "funnels")["Checkout"]["steps"][0]["value"] == "by_hand"
    assert run(service, "apply", file, "--force").returncode == 0
    assert names(service, "funnels")["Checkout"]["steps"][0]["value"] == "cart_opened"
    assert "2 unchanged" in run(service, "plan", file).stdout


def test_a_goal_that_changed_elsewhere_is_named_and_kept(service, tmp_path):
    file = written(tmp_path)
    run(service, "apply", file)
    goal = names(service, "goals")["Paid"]
    match = {"match": {"type": "Event", "value": "by_hand"}}
    assert service.client.patch(f"/api/goals/{goal['id']}", json=match).status_code == 200
    result = run(service, "apply", file)
    assert result.returncode == 1
    assert result.stdout.startswith("! goal Paid: it was changed elsewhere: revision 2")
    assert names(service, "goals")["Paid"]["match"]["value"] == "by_hand"


def test_records_that_were_never_applied_are_adopted_only_if_they_are_the_same(service, tmp_path):
    file = written(tmp_path)
    goal = {"name": "Paid", "match": {"type": "Transaction", "value": "purchase"}}
    assert service.client.post("/api/goals", json=goal).status_code == 201
    steps = [{"type": "Event", "value": "a"}, {"type": "Event", "value": "b"}]
    funnel = {"name": "Checkout", "steps": steps}
    assert service.client.post("/api/funnels", json=funnel).status_code == 201
    result = run(service, "apply", file)
    assert result.returncode == 1
    assert result.stdout.splitlines()[:2] == [
        "= goal Paid",
        "! funnel Checkout: it exists with another definition, at revision 1",
    ]


def test_a_name_that_left_the_file_is_mentioned_and_not_deleted(service, tmp_path):
    file = written(tmp_path)
    run(service, "apply", file)
    written(tmp_path, FILE[: FILE.index("funnels:")])
    result = run(service, "apply", file)
    assert "? funnel Checkout: no longer in the file; it is not deleted" in result.stdout
    assert "Checkout" in names(service, "funnels")


def test_an_invalid_funnel_ends_the_plan_with_its_faults(service, tmp_path):
    file = written(tmp_path, "funnels:\n  - {name: Short, steps: [{type: Event, value: a}]}\n")
    result = run(service, "plan", file)
    assert result.returncode == 1
    assert result.stderr.startswith("penstock: funnel Short: steps: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("goals: [", "is not valid YAML"),
        ("dashboards: []", "must have the lists goals and funnels, and nothing else"),
        ("goals: [{match: {}}]", "each entry of goals needs a name"),
        ("goals: [{name: A}, {name: A}]", "goals has the name A twice"),
        ("goals: 7", "goals must be a list"),
        ("!!python/object/apply:os.getcwd []", "is not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(service, tmp_path, text, message):
    result = run(service, "plan", written(tmp_path, text))
    assert result.returncode == 2
    assert message in result.stderr


def test_a_damaged_record_of_revisions_says_what_to_do(service, tmp_path):
    file = written(tmp_path)
    (tmp_path / "funnels.yml.applied.json").write_text(json.dumps({"goals": 7}), "utf-8")
    result = run(service, "plan", file)
    assert result.returncode == 1
    assert "is damaged; delete it" in result.stderr
