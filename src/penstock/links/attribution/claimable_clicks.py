"""Stores clicks that people made on phones, before the clicks reach the outbox, so that app opens
can claim them.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import json
from sqlalchemy import Connection

from penstock.base.clock import parse_time
from penstock.base.user_agent import Platform
from penstock.links.attribution import store
from penstock.links.attribution.rules import TOKEN_WINDOW_MS
from penstock.links.clicks.match_keys import NETWORK_WINDOW_MS
from penstock.settings import DAY_S, Settings

_CLAIMABLE_PLATFORMS = (Platform.IOS, Platform.ANDROID)
_GRACE_MS = DAY_S * 1000
"""Time that clicks are kept after their window ends, in ms.

An open that would match a click during this time gets the reason `expired`.
"""


class ClaimableClickWriter:
    """Processes the rows of the click buffer in the transaction that moves them to the outbox."""

    def __init__(self, settings: Settings) -> None:
        longest_window_ms = max(settings.install_referrer_days * DAY_S * 1000, TOKEN_WINDOW_MS)
        self._retention_ms = longest_window_ms + _GRACE_MS

    def write(self, db: Connection, rows: Sequence[str]) -> list[str]:
        """Store the claimable clicks. Returns all rows for the warehouse, without match keys."""
        clicks = [json.decode(row) for row in rows]
        store.add_clicks(
            db,
            [
                self._values(click)
                for click in clicks
                if click.get("platform") in _CLAIMABLE_PLATFORMS and not click.get("bot")
            ],
        )
        return [_drop_match_key(click, row) for click, row in zip(clicks, rows, strict=True)]

    def _values(self, click: dict[str, Any]) -> tuple[Any, ...]:
        clicked_at_ms, match_key = parse_time(click["clicked_at"]), click.get("match_key")
        derived = {
            "link_revision": click.get("link_revision", 1),  # older rows have no revision
            "token_hash": bytes.fromhex(click["token_hash"]) or None,
            "clicked_at": clicked_at_ms,
            "match_key": bytes.fromhex(match_key) if match_key else None,
            "match_until": clicked_at_ms + NETWORK_WINDOW_MS if match_key else None,
            "expires_at": clicked_at_ms + self._retention_ms,
        }
        return tuple(
            derived[name] if name in derived else click.get(name) for name in store.CLICK_COLUMNS
        )


def _drop_match_key(click: dict[str, Any], row: str) -> str:
    return json.encode(click).decode() if click.pop("match_key", None) else row
