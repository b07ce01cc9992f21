"""The browser for tests and screenshots: the system's Chromium, installed by `scripts/setup
tests`.
"""

import shutil
from typing import Any

_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Programs in order of preference.

The headless shell is the same engine without the browser's own windows. With it, a new context with
three pages takes 0.7 s of CPU time instead of 2.0 s.
"""

_DISABLED_FEATURES = (
    "LocalNetworkAccessChecks",  # Tests use invented sites that call the service on this machine.
    # This would be an extra process per context that few tests use.
    "SpareRendererForSitePerProcess",
    "HttpsUpgrades",
    "MediaRouter",
    "OptimizationHints",
    "PaintHolding",
)

LAUNCH: dict[str, Any] = {
    "executable_path": next(filter(None, map(shutil.which, _PROGRAMS)), None),
    "args": [
        "--no-sandbox",
        "--in-process-gpu",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        # One process for all pages of a context: they share compiled scripts.
        "--renderer-process-limit=1",
        f"--disable-features={','.join(_DISABLED_FEATURES)}",
    ],
}
"""Arguments for Playwright's `launch`.

The sandbox needs rights that containers lack, and only our own pages are opened. Chromium uses only
the last `--disable-features`, so the list repeats those of Playwright's entries that matter here.
"""
