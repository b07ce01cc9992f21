"""The side navigation. A page that is new gets its line here; the first one is where people come after the log-in."""

from typing import NamedTuple


class Entry(NamedTuple):
    """href: also the beginning of the addresses of all pages below it. icon: a name in `ui.icon`.

    also: beginnings of further addresses that belong to it.
    """

    text: str
    href: str
    icon: str = ""
    also: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        """Whether the page at a path is this one or below it."""
        return any(path == start or path.startswith(f"{start}/") for start in (self.href, *self.also))


NAV: tuple[Entry, ...] = (
    Entry("Funnels", "/funnels", "funnels"),
    Entry("Goals", "/goals", "goals"),
    Entry("Live events", "/live", "live", also=("/refused",)),
    Entry("Visitors", "/visitors", "visitors"),
    Entry("Links", "/links", "links"),
    Entry("Imports", "/imports", "imports", also=("/deletions",)),
    Entry("Settings", "/settings", "settings"),
)

SETTINGS: tuple[Entry, ...] = (
    Entry("Websites and apps", "/settings/websites"),
    Entry("API keys", "/settings/api-keys"),
    Entry("Members", "/settings/members"),
    Entry("Workspace", "/settings/workspace"),
    Entry("Account", "/settings/account"),
)
