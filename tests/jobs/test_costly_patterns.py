"""A costly regular expression delays its own workspace, and only until the time limit."""

from random import Random
from time import monotonic

import pytest

from tests.answers import problem
from tests.tenant import Tenant

LETTERS = "".join(Random(1).choices("ab", k=4000))
COSTLY = "[ab]*a[ab]{900}c"
"""For each letter, RE2 follows up to 900 states. An event with `LETTERS` takes 0.02 s or more."""


def send_letters(tenant: Tenant, scene, events: int) -> None:
    """Send events A whose property takes RE2 as long as possible."""
    items = [scene.item(n, "A", f"v{n}", letters=LETTERS, n=n) for n in range(events)]
    for start in range(0, events, 200):
        scene.track(items[start : start + 200])


def costly_preview(tenant: Tenant, pattern: str = COSTLY):
    filters = [{"property": "letters", "operator": "matches_regex", "value": pattern}]
    steps = [{"type": "Event", "value": name, "filters": filters} for name in "AB"]
    return tenant.client.post("/api/funnels/preview", json={"steps": steps})


@pytest.mark.usefixtures("warehouse")
def test_a_costly_pattern_is_stopped_at_the_limit(workspace, scene):
    send_letters(workspace, scene, 400)
    workspace.client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": 1})
    began_s = monotonic()
    assert problem(costly_preview(workspace)) == (503, "query_timeout")
    assert monotonic() - began_s < 5
