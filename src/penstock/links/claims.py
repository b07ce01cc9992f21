"""Clicks on their way out of the spool: those of people on phones are also kept where an app's open can claim them."""

from collections.abc import Sequence
from typing import Any

from msgspec import json
from sqlalchemy import Connection

from penstock.base.clock import parse_time
from penstock.links import claims_store as store
from penstock.links.agents import Platform
from penstock.links.resolving import NETWORK_WINDOW_MS, TOKEN_WINDOW_MS
from penstock.settings import DAY_S, Settings

_CLAIMABLE = (Platform.IOS, Platform.ANDROID)
_AFTERWARDS_MS = DAY_S * 1000
"""How much longer a click is known than it can be claimed, so that an app that comes late is told that it does."""


class ClickKeeper:
    """Takes the rows of a spool's file, in the transaction that carries them."""

    def __init__(self, settings: Settings) -> None:
        self._kept_ms = max(settings.install_referrer_days * DAY_S * 1000, TOKEN_WINDOW_MS) + _AFTERWARDS_MS

    def take(self, db: Connection, rows: Sequence[str]) -> list[str]:
        """Keep what can be claimed; gives back the rows as the warehouse takes them, which never sees what stands for a network."""
        clicks = [json.decode(row) for row in rows]
        store.add_clicks(db, [self._values(click) for click in clicks if click.get("platform") in _CLAIMABLE and not click.get("bot")])
        return [_without_key(click, row) for click, row in zip(clicks, rows, strict=True)]

    def _values(self, click: dict[str, Any]) -> tuple[Any, ...]:
        clicked_at_ms, match_key = parse_time(click["clicked_at"]), click.get("match_key")
        derived = {
            "token_hash": bytes.fromhex(click["token_hash"]) or None,
            "clicked_at": clicked_at_ms,
            "match_key": bytes.fromhex(match_key) if match_key else None,
            "match_until": clicked_at_ms + NETWORK_WINDOW_MS if match_key else None,
            "expires_at": clicked_at_ms + self._kept_ms,
        }
        return tuple(derived[name] if name in derived else click.get(name) for name in store.COLUMNS)


def _without_key(click: dict[str, Any], row: str) -> str:
    return json.encode(click).decode() if click.pop("match_key", None) else row
