"""The canonical form of page paths, shared by events and funnel definitions."""


def page_path(path: str) -> str:
    """The path without query, fragment and trailing slash; `/` stays.

    Source: funnel semantics, matching.
    """
    return path.partition("?")[0].partition("#")[0].rstrip("/") or "/"
