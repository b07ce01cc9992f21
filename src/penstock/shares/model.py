"""Plain types of shared reports. No I/O."""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.base.ids import WorkspaceId

MAX_SHARES = 200
"""Maximum number of shared reports in a workspace."""

DEFAULT_DAYS = 90
"""Days until a shared report expires if its creator does not choose."""


class Share(NamedTuple):
    """A shared report. parameters: the selection, as query parameters of the report's page.

    expires_at_ms: None if it never expires.
    """

    id: str
    workspace_id: WorkspaceId
    funnel_id: str
    name: str
    parameters: Mapping[str, str]
    expires_at_ms: int | None

    def is_open(self, now_ms: int) -> bool:
        return self.expires_at_ms is None or now_ms < self.expires_at_ms
