"""What may leave a workspace's dashboard: only figures, until the workspace allows more."""

from typing import Any

import pytest

from penstock.accounts.workspace.model import Contents, SharedContents
from penstock.app import Services
from penstock.base.ids import WorkspaceId
from tests.answers import body_of, faults
from tests.tenant import Tenant, audit_log

SETTINGS = "/api/settings/workspace"


def shared(tenant: Tenant, services: Services) -> SharedContents:
    return services.limits.shared_contents(WorkspaceId(tenant.id))


@pytest.mark.every_database
def test_only_figures_leave_until_the_workspace_allows_more(
    workspace: Tenant, other_workspace: Tenant, services: Services
) -> None:
    assert shared(workspace, services) == (Contents.FIGURES, ())
    change = {"sharedContents": "units", "sharedProperties": ["plan", "$trait.company", "plan"]}
    stored = {"sharedContents": "units", "sharedProperties": ["plan", "$trait.company"]}
    assert body_of(workspace.client.patch(SETTINGS, json=change)).items() >= stored.items()
    assert body_of(workspace.client.get(SETTINGS)).items() >= stored.items()
    assert shared(workspace, services) == (Contents.UNITS, ("plan", "$trait.company"))
    assert shared(other_workspace, services) == (Contents.FIGURES, ())
    body_of(workspace.client.patch(SETTINGS, json={"sharedContents": "figures"}))
    assert shared(workspace, services) == (Contents.FIGURES, ("plan", "$trait.company"))


def test_the_audit_log_says_what_is_shared_from_now_on(workspace: Tenant) -> None:
    for change in (
        {"name": "Acme Ltd"},
        {"sharedContents": "units"},
        {"sharedContents": "units"},
        {"sharedProperties": ["plan", "country"]},
    ):
        body_of(workspace.client.patch(SETTINGS, json=change))
    entries = audit_log(workspace.browser, "workspace_changed")
    assert [entry["target"].partition(": ")[2] for entry in reversed(entries)] == [
        "name",
        "sharedContents; shared from now on: units, values of no properties",
        "sharedProperties; shared from now on: units, values of plan, country",
    ]


@pytest.mark.parametrize(
    ("field", "value", "at", "code"),
    [
        ("sharedContents", "all", "sharedContents", "not_one_of"),
        ("sharedContents", None, "sharedContents", "not_null"),
        ("sharedProperties", ["plan", " "], "sharedProperties[1]", "too_short"),
        ("sharedProperties", ["plan"] * 101, "sharedProperties", "too_many"),
    ],
)
def test_other_contents_are_refused(
    workspace: Tenant, field: str, value: Any, at: str, code: str
) -> None:
    assert faults(workspace.client.patch(SETTINGS, json={field: value})) == {at: code}
