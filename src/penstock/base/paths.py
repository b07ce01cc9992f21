"""Page paths: their canonical form, shared by events and funnel definitions, and those of URLs."""

from urllib.parse import SplitResult, urlsplit


def page_path(path: str) -> str:
    """The path without query, fragment and trailing slash; `/` stays.

    Source: funnel semantics, matching.
    """
    return path.partition("?")[0].partition("#")[0].rstrip("/") or "/"


def split_url(url: str) -> SplitResult | None:
    """The parts of a URL; None when it is none."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


def path_of_url(url: SplitResult | None) -> str | None:
    """The page path of a URL; None when it has none."""
    return page_path(url.path) if url is not None and url.path[:1] in ("", "/") else None
