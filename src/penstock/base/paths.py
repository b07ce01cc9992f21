"""The canonical form of page paths, shared by events and funnel definitions."""

import re

_AFTER_PATH = re.compile(r"[?#]")


def page_path(path: str) -> str:
    """The path without query, fragment and trailing slash; `/` stays.

    Source: funnel semantics, matching.
    """
    return _AFTER_PATH.split(path, maxsplit=1)[0].rstrip("/") or "/"
