"""The browser for tests and pictures: the system's Chromium (`scripts/setup tests`)."""

import shutil
from typing import Any

_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Programs in order of preference.

The shell is the same engine without a browser around it: a new context with three pages costs 0.7 s
of CPU time instead of 2.0 s.
"""

_DISABLED_FEATURES = (
    "LocalNetworkAccessChecks",  # tests invent sites that call the service on this machine
    "SpareRendererForSitePerProcess",  # an extra process per context that few tests use
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
        f"--disable-features={','.join(_DISABLED_FEATURES)}",
    ],
}
"""Arguments of Playwright's `launch`.

The sandbox needs rights that containers lack, and only our own pages are opened. Chromium only
reads the last `--disable-features`, so the list repeats those of Playwright's that matter here.
"""
