"""API responses that an upgrade must not change."""

from typing import Any

import httpx

_NOT_COMPARED = {
    *("evaluatedAt", "computedAt", "nextCursor"),  # these fields differ between calls
    *("servedFrom", "directReason"),  # these depend on cached or stored data
    *("notes", "changes"),  # These are sentences for people, whose wording may improve.
}


def report_paths(client: httpx.Client, funnel_ids: list[str], website_id: str) -> list[str]:
    """Return the paths of every kind of report on the funnels, and of records in each store."""
    funnels = [
        f"/api/funnels/{funnel_id}{part}"
        for funnel_id in funnel_ids
        for part in ("", "/results", "/trend", "/timing", "/units?pageSize=100", "/revisions")
    ]
    return [
        *funnels,
        "/api/goals",
        "/api/settings/websites",
        f"/api/imports?websiteId={website_id}",
        f"/api/visitors?websiteId={website_id}",
    ]


def comparable(answer: Any) -> Any:
    """Return the answer without the fields that an upgrade may change."""
    if isinstance(answer, dict):
        fields = answer.items()
        return {name: comparable(value) for name, value in fields if name not in _NOT_COMPARED}
    return [comparable(item) for item in answer] if isinstance(answer, list) else answer
