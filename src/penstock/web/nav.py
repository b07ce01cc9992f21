"""The side navigation. A page that is new gets its line here; the first one is where people come after the log-in."""

from typing import NamedTuple


class Entry(NamedTuple):
    """href: also the beginning of the addresses of all pages below it. icon: a name in `ui.icon`."""

    text: str
    href: str
    icon: str = ""

    def holds(self, path: str) -> bool:
        """Whether the page at a path is this one or below it."""
        return path == self.href or path.startswith(f"{self.href}/")


NAV: tuple[Entry, ...] = (Entry("Settings", "/settings", "settings"),)

SETTINGS: tuple[Entry, ...] = (
    Entry("Websites and apps", "/settings/websites"),
    Entry("API keys", "/settings/api-keys"),
    Entry("Members", "/settings/members"),
    Entry("Workspace", "/settings/workspace"),
    Entry("Account", "/settings/account"),
)
