"""The browser that tests and pictures use: the system's Chromium, which `scripts/setup tests` installs."""

import shutil
from typing import Any

LAUNCH: dict[str, Any] = {
    "executable_path": shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome"),
    "args": [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-features=LocalNetworkAccessChecks",
    ],
}
"""Arguments of Playwright's `launch`. The sandbox needs rights that containers do not have; only our own pages are opened.
Nor may a site that a test makes up ask this machine otherwise, on which the service runs."""
