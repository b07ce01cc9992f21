"""Page paths, spelled one way on both sides: as events carry them and as funnels name them."""

import re

_AFTER_PATH = re.compile(r"[?#]")


def page_path(path: str) -> str:
    """A page path without query, fragment or trailing slash; `/` stays. Source: funnel semantics, matching."""
    return _AFTER_PATH.split(path, maxsplit=1)[0].rstrip("/") or "/"
