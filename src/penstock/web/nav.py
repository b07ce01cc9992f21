"""The navigation of all pages. Its first entry opens after the log-in."""

from typing import NamedTuple


class Entry(NamedTuple):
    """A link in the navigation.

    icon: a name for `ui.icon`. tabs: the pages of the entry, if there are several. for_owners:
    whether only owners see it.
    """

    text: str
    href: str
    icon: str = ""
    tabs: "tuple[Entry, ...]" = ()
    for_owners: bool = False

    def contains(self, path: str) -> bool:
        """Whether the path is this page, below it, or one of its tabs."""
        is_here = path == self.href or path.startswith(f"{self.href}/")
        return is_here or any(tab.contains(path) for tab in self.tabs)


_LIVE = (Entry("Accepted", "/live"), Entry("Rejected", "/refused"))
_IMPORTS = (
    Entry("Imports", "/imports"),
    Entry("Mappings", "/mappings"),
    Entry("Exports", "/exports"),
    Entry("Deletions", "/deletions"),
)
SETTINGS = (
    Entry("Websites and apps", "/settings/websites"),
    Entry("API keys", "/settings/api-keys"),
    Entry("Members", "/settings/members"),
    Entry("Workspace", "/settings/workspace"),
    Entry("Internal traffic", "/settings/internal-traffic"),
    Entry("Shared reports", "/settings/shares"),
    Entry("Webhooks", "/settings/webhooks"),
    Entry("Receipts", "/settings/receipts"),
    Entry("Audit log", "/settings/audit-log"),
    Entry("Account", "/settings/account"),
)

NAV: tuple[Entry, ...] = (
    Entry("Funnels", "/funnels", "funnels"),
    Entry("Alerts", "/alerts", "alerts"),
    Entry("Goals", "/goals", "goals"),
    Entry("Segments", "/segments", "segments"),
    Entry("Live events", "/live", "live", _LIVE),
    Entry("Visitors", "/visitors", "visitors"),
    Entry("Cohorts", "/cohorts", "cohorts"),
    Entry("Links", "/links", "links"),
    Entry("Attribution", "/attribution", "attribution"),
    Entry("Imports", "/imports", "imports", _IMPORTS),
    Entry("Connect", "/connect", "web", (Entry("Connect", "/welcome"),)),
    Entry("System", "/system", "system", for_owners=True),
    Entry("Settings", "/settings", "settings", SETTINGS),
)


def tabs_at(path: str) -> tuple[Entry, ...]:
    """Return the tabs of the page with this path; empty if it has none."""
    return next((entry.tabs for entry in NAV if entry.contains(path)), ())
