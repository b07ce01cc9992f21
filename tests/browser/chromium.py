"""The browser of tests and pictures: the system's Chromium (`scripts/setup tests`)."""

import shutil
from typing import Any

_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first that is installed is used. The shell is the same engine without a browser around it:
a new context with three pages costs 0.7 s of CPU time instead of 2.0 s."""

_DISABLED_FEATURES = (
    "LocalNetworkAccessChecks",  # tests make up sites that call the service on this machine
    "SpareRendererForSitePerProcess",  # a second process per context that few tests use
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

The sandbox needs rights that containers lack, and only our own pages are opened. Chromium reads
the last `--disable-features` only, so the list repeats the ones of Playwright's that matter here.
"""
