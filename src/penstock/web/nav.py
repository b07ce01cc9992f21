"""The navigation of all pages. Its first entry opens after the log-in."""

from typing import NamedTuple


class Entry(NamedTuple):
    """A link in the navigation.

    icon: a name for `ui.icon`. also: other path prefixes that belong to the entry. for_owners:
    whether only owners see it.
    """

    text: str
    href: str
    icon: str = ""
    also: tuple[str, ...] = ()
    for_owners: bool = False

    def contains(self, path: str) -> bool:
        """Whether the path is this page or below it."""
        return any(
            path == start or path.startswith(f"{start}/") for start in (self.href, *self.also)
        )


NAV: tuple[Entry, ...] = (
    Entry("Funnels", "/funnels", "funnels"),
    Entry("Goals", "/goals", "goals"),
    Entry("Segments", "/segments", "segments"),
    Entry("Live events", "/live", "live", also=("/refused",)),
    Entry("Visitors", "/visitors", "visitors"),
    Entry("Cohorts", "/cohorts", "cohorts"),
    Entry("Links", "/links", "links"),
    Entry("Attribution", "/attribution", "attribution"),
    Entry("Imports", "/imports", "imports", also=("/mappings", "/exports", "/deletions")),
    Entry("System", "/system", "system", for_owners=True),
    Entry("Settings", "/settings", "settings"),
)

SETTINGS: tuple[Entry, ...] = (
    Entry("Websites and apps", "/settings/websites"),
    Entry("API keys", "/settings/api-keys"),
    Entry("Members", "/settings/members"),
    Entry("Workspace", "/settings/workspace"),
    Entry("Internal traffic", "/settings/internal-traffic"),
    Entry("Audit log", "/settings/audit-log"),
    Entry("Account", "/settings/account"),
)
