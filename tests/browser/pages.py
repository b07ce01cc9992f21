"""Every page of the dashboard, for tests of accessibility and weight, and for `make screenshots`.

A test checks that this list is complete.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Ids = Mapping[str, str]
"""Record IDs for URLs, such as `website`, `app`, `funnel`, `goal` and `unit` (`Demo.ids`)."""


@dataclass(frozen=True)
class ShownPage:
    """One page. name: name of its screenshots. route: the application's route. path: URL in the
    demo data.

    dark: whether to take a screenshot in dark mode as well.
    """

    name: str
    route: str
    path: Callable[[Ids], str]
    signed_in: bool = True
    dark: bool = False


def at(path: str) -> Callable[[Ids], str]:
    """Return a function that fills in IDs by name, such as in `/settings/websites/{app}`."""
    return lambda ids: path.format_map(ids)


PAGES = (
    ShownPage("login", "/login", at("/login"), signed_in=False, dark=True),
    ShownPage("reset-password", "/reset-password", at("/reset-password"), signed_in=False),
    ShownPage("new-password", "/reset-password/new", at("/reset-password/new#x"), signed_in=False),
    ShownPage("confirm-email", "/confirm-email", at("/confirm-email?token=x")),
    ShownPage("secured", "/login/secured", at("/login/secured")),
    ShownPage("signup", "/signup", at("/signup"), signed_in=False),
    ShownPage("welcome", "/welcome", at("/welcome")),
    ShownPage("welcome-waiting", "/welcome/{website_id}", at("/welcome/{silent}")),
    ShownPage("welcome-arrived", "/welcome/{website_id}", at("/welcome/{website}")),
    ShownPage("funnels", "/funnels", at("/funnels"), dark=True),
    ShownPage("funnel-new", "/funnels/new", at("/funnels/new")),
    ShownPage(
        "report", "/funnels/{funnel_id}", at("/funnels/{funnel}?timezone=Europe/Berlin"), dark=True
    ),
    ShownPage(
        "report-trend",
        "/funnels/{funnel_id}",
        at("/funnels/{funnel}?timezone=Europe/Berlin&show=trend&bars=steps"),
        dark=True,
    ),
    ShownPage(
        "report-times",
        "/funnels/{funnel_id}",
        at("/funnels/{funnel}?timezone=Europe/Berlin&show=times"),
    ),
    ShownPage(
        "report-compare",
        "/funnels/{funnel_id}",
        at("/funnels/{funnel}?timezone=Europe/Berlin&show=compare"),
    ),
    ShownPage(
        "report-drivers",
        "/funnels/{funnel_id}",
        at("/funnels/{funnel}?timezone=Europe/Berlin&show=drivers&step=1"),
    ),
    ShownPage(
        "report-flows",
        "/funnels/{funnel_id}",
        at("/funnels/{funnel}?timezone=Europe/Berlin&show=flows&of=visitor"),
    ),
    ShownPage(
        "report-next",
        "/funnels/{funnel_id}",
        at("/funnels/{funnel}?timezone=Europe/Berlin&show=next&step=1"),
    ),
    ShownPage(
        "report-quality",
        "/funnels/{funnel_id}",
        at("/funnels/{funnel}?timezone=Europe/Berlin&show=quality"),
    ),
    ShownPage(
        "report-asked",
        "/funnels/{funnel_id}",
        at(
            "/funnels/{funnel}?timezone=Europe/Berlin&breakdown=$country&window=12h&settled=true&filters="
            "[{{%22property%22:%22plan%22,%22operator%22:%22equals%22,%22value%22:%22basic%22}}]"
        ),
        dark=True,
    ),
    ShownPage(
        "report-periods",
        "/funnels/{funnel_id}",
        at("/funnels/{funnel}?timezone=Europe/Berlin&period=settled&compare=previous"),
        dark=True,
    ),
    ShownPage(
        "report-units",
        "/funnels/{funnel_id}/units",
        at("/funnels/{funnel}/units?timezone=Europe/Berlin&step=2&outcome=droppedOff"),
    ),
    ShownPage(
        "report-units-event",
        "/funnels/{funnel_id}/units",
        at(
            "/funnels/{funnel}/units?timezone=Europe/Berlin&step=1&eventType=Event&eventName=payment_failed"
            "&hasEvent=false"
        ),
    ),
    ShownPage(
        "report-trace",
        "/funnels/{funnel_id}/units/{unit}",
        at("/funnels/{funnel}/units/{unit}?timezone=Europe/Berlin"),
        dark=True,
    ),
    ShownPage("funnel-edit", "/funnels/{funnel_id}/edit", at("/funnels/{funnel}/edit"), dark=True),
    ShownPage("goals", "/goals", at("/goals")),
    ShownPage("goal-new", "/goals/new", at("/goals/new")),
    ShownPage("goal-edit", "/goals/{goal_id}/edit", at("/goals/{goal}/edit")),
    ShownPage("segments", "/segments", at("/segments")),
    ShownPage("segment-new", "/segments/new", at("/segments/new")),
    ShownPage(
        "segment-edit", "/segments/{segment_id}/edit", at("/segments/{segment}/edit"), dark=True
    ),
    ShownPage(
        "report-segment",
        "/funnels/{funnel_id}",
        at(
            "/funnels/{funnel}?timezone=Europe/Berlin&segment={segment}&filters="
            "[{{%22property%22:%22plan%22,%22operator%22:%22equals%22,%22value%22:%22basic%22}}]"
        ),
        dark=True,
    ),
    ShownPage("cohorts", "/cohorts", at("/cohorts")),
    ShownPage("cohort", "/cohorts/{cohort_id}", at("/cohorts/{cohort}"), dark=True),
    ShownPage(
        "report-cohort",
        "/funnels/{funnel_id}",
        at(
            "/funnels/{funnel}?timezone=Europe/Berlin&filters="
            "[{{%22property%22:%22$cohort%22,%22operator%22:%22equals%22,%22value%22:%22{cohort}%22}}]"
        ),
    ),
    ShownPage("internal-traffic", "/settings/internal-traffic", at("/settings/internal-traffic")),
    ShownPage("links", "/links", at("/links")),
    ShownPage("link-new", "/links/new", at("/links/new?from={link}")),
    ShownPage("links-upload", "/links/upload", at("/links/upload")),
    ShownPage("link-edit", "/links/{link_id}/edit", at("/links/{link}/edit")),
    ShownPage("link", "/links/{link_id}", at("/links/{link}?period=7d"), dark=True),
    ShownPage(
        "attribution",
        "/attribution",
        at("/attribution?groupBy=source&funnelId={funnel}&timezone=Europe/Berlin"),
        dark=True,
    ),
    ShownPage("live", "/live", at("/live"), dark=True),
    ShownPage("live-attempt", "/live", at("/live?property={property}&value={value}")),
    ShownPage("live-refused", "/refused", at("/refused")),
    ShownPage("system", "/system", at("/system"), dark=True),
    ShownPage("visitors", "/visitors", at("/visitors")),
    ShownPage("visitors-none", "/visitors", at("/visitors?search=nobody-has-this-id")),
    ShownPage(
        "visitor", "/visitors/{visitor_id}", at("/visitors/{visitor}?websiteId={blog}"), dark=True
    ),
    ShownPage("imports", "/imports", at("/imports"), dark=True),
    ShownPage("import", "/imports/{import_id}", at("/imports/{import}")),
    ShownPage("import-checked", "/imports/{import_id}", at("/imports/{checked}"), dark=True),
    ShownPage("import-mapping", "/imports/{import_id}", at("/imports/{mapping}"), dark=True),
    ShownPage("import-started", "/imports/{import_id}", at("/imports/{started}"), dark=True),
    ShownPage("funnel-first", "/funnels/new", at("/funnels/new?import={started}")),
    ShownPage("mappings", "/mappings", at("/mappings"), dark=True),
    ShownPage("exports", "/exports", at("/exports"), dark=True),
    ShownPage("deletions", "/deletions", at("/deletions")),
    ShownPage("deletion-new", "/deletions/new", at("/deletions/new")),
    ShownPage(
        "deletion-confirm",
        "/deletions/new",
        at("/deletions/new?websiteId={blog}&visitorId={visitor}"),
    ),
    ShownPage("settings-websites", "/settings/websites", at("/settings/websites"), dark=True),
    ShownPage("settings-website-new", "/settings/websites/new", at("/settings/websites/new")),
    ShownPage(
        "settings-website", "/settings/websites/{website_id}", at("/settings/websites/{website}")
    ),
    ShownPage(
        "settings-app", "/settings/websites/{website_id}", at("/settings/websites/{app}"), dark=True
    ),
    ShownPage("settings-api-keys", "/settings/api-keys", at("/settings/api-keys")),
    ShownPage("settings-workspace", "/settings/workspace", at("/settings/workspace")),
    ShownPage("settings-members", "/settings/members", at("/settings/members"), dark=True),
    ShownPage("invited", "/signup", at("/signup?invitation={invitation}"), signed_in=False),
    ShownPage("settings-audit-log", "/settings/audit-log", at("/settings/audit-log")),
    ShownPage("settings-account", "/settings/account", at("/settings/account")),
)

ONLY_LEAD_ON = {"/", "/login/sso", "/login/sso/callback", "/settings"}
"""Routes of pages without content, such as redirects."""

PARTS = {"/funnels/{funnel_id}/row", "/funnels/{funnel_id}/outcomes"}
"""Routes of fragments that pages load separately."""
