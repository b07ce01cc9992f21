"""Every page of the dashboard, for tests of accessibility and weight, and for `make screenshots`.

A test holds that no page is missing here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Ids = Mapping[str, str]
"""IDs of records in addresses: `website`, `app`, `funnel`, `goal`, `unit` and more (`Demo.ids`)."""


@dataclass(frozen=True)
class Shown:
    """One page. name: of its pictures. route: of the application. path: on the demo data.

    dark: whether there is a picture in the dark, too.
    """

    name: str
    route: str
    path: Callable[[Ids], str]
    signed_in: bool = True
    dark: bool = False


def at(path: str) -> Callable[[Ids], str]:
    """An address, with IDs by their names: `/settings/websites/{app}`."""
    return lambda ids: path.format_map(ids)


PAGES = (
    Shown("login", "/login", at("/login"), signed_in=False, dark=True),
    Shown("reset-password", "/reset-password", at("/reset-password"), signed_in=False),
    Shown("new-password", "/reset-password/new", at("/reset-password/new#x"), signed_in=False),
    Shown("signup", "/signup", at("/signup"), signed_in=False),
    Shown("welcome", "/welcome", at("/welcome")),
    Shown("welcome-waiting", "/welcome/{website_id}", at("/welcome/{silent}")),
    Shown("welcome-arrived", "/welcome/{website_id}", at("/welcome/{website}")),
    Shown("funnels", "/funnels", at("/funnels"), dark=True),
    Shown("funnel-new", "/funnels/new", at("/funnels/new")),
    Shown("report", "/funnels/{funnel_id}", at("/funnels/{funnel}?timezone=UTC"), dark=True),
    Shown(
        "report-trend",
        "/funnels/{funnel_id}",
        at("/funnels/{funnel}?timezone=UTC&show=trend&bars=steps"),
        dark=True,
    ),
    Shown("report-times", "/funnels/{funnel_id}", at("/funnels/{funnel}?timezone=UTC&show=times")),
    Shown(
        "report-compare", "/funnels/{funnel_id}", at("/funnels/{funnel}?timezone=UTC&show=compare")
    ),
    Shown(
        "report-next", "/funnels/{funnel_id}", at("/funnels/{funnel}?timezone=UTC&show=next&step=1")
    ),
    Shown(
        "report-quality", "/funnels/{funnel_id}", at("/funnels/{funnel}?timezone=UTC&show=quality")
    ),
    Shown(
        "report-units",
        "/funnels/{funnel_id}/units",
        at("/funnels/{funnel}/units?timezone=UTC&step=2&outcome=droppedOff"),
    ),
    Shown(
        "report-trace",
        "/funnels/{funnel_id}/units/{unit}",
        at("/funnels/{funnel}/units/{unit}?timezone=UTC"),
        dark=True,
    ),
    Shown("funnel-edit", "/funnels/{funnel_id}/edit", at("/funnels/{funnel}/edit"), dark=True),
    Shown("goals", "/goals", at("/goals")),
    Shown("goal-new", "/goals/new", at("/goals/new")),
    Shown("goal-edit", "/goals/{goal_id}/edit", at("/goals/{goal}/edit")),
    Shown("links", "/links", at("/links")),
    Shown("link-new", "/links/new", at("/links/new?from={link}")),
    Shown("link", "/links/{link_id}", at("/links/{link}?period=7d"), dark=True),
    Shown("live", "/live", at("/live"), dark=True),
    Shown("live-attempt", "/live", at("/live?property={property}&value={value}")),
    Shown("live-refused", "/refused", at("/refused")),
    Shown("system", "/system", at("/system"), dark=True),
    Shown("visitors", "/visitors", at("/visitors")),
    Shown("visitors-none", "/visitors", at("/visitors?search=nobody-has-this-id")),
    Shown(
        "visitor", "/visitors/{visitor_id}", at("/visitors/{visitor}?websiteId={blog}"), dark=True
    ),
    Shown("imports", "/imports", at("/imports"), dark=True),
    Shown("import", "/imports/{import_id}", at("/imports/{import}")),
    Shown("deletions", "/deletions", at("/deletions")),
    Shown("deletion-new", "/deletions/new", at("/deletions/new")),
    Shown(
        "deletion-confirm",
        "/deletions/new",
        at("/deletions/new?websiteId={blog}&visitorId={visitor}"),
    ),
    Shown("settings-websites", "/settings/websites", at("/settings/websites"), dark=True),
    Shown("settings-website-new", "/settings/websites/new", at("/settings/websites/new")),
    Shown(
        "settings-website", "/settings/websites/{website_id}", at("/settings/websites/{website}")
    ),
    Shown(
        "settings-app", "/settings/websites/{website_id}", at("/settings/websites/{app}"), dark=True
    ),
    Shown("settings-api-keys", "/settings/api-keys", at("/settings/api-keys")),
    Shown("settings-workspace", "/settings/workspace", at("/settings/workspace")),
    Shown("settings-members", "/settings/members", at("/settings/members"), dark=True),
    Shown("invited", "/signup", at("/signup?invitation={invitation}"), signed_in=False),
    Shown("settings-audit-log", "/settings/audit-log", at("/settings/audit-log")),
    Shown("settings-account", "/settings/account", at("/settings/account")),
)

ONLY_LEAD_ON = {"/", "/login/sso", "/login/sso/callback", "/settings"}
"""Routes of pages that show nothing of their own."""

PARTS = {"/funnels/{funnel_id}/row"}
"""Routes of parts that pages ask for by themselves."""
