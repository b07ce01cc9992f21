"""Every page of the dashboard, for tests of accessibility and weight, and for `make screenshots`.

A test checks that this list is complete.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Ids = Mapping[str, str]
"""Record IDs for URLs, such as `website`, `app`, `funnel`, `goal` and `unit` (`Demo.ids`)."""


@dataclass(frozen=True)
class ShownPage:
    """One page. name: name of its screenshots. route: the application's route. address: URL in the
    demo data with names of IDs, such as `/settings/websites/{app}`; by default the route.

    dark: whether to take a screenshot in dark mode as well.
    """

    name: str
    route: str
    address: str = ""
    signed_in: bool = True
    dark: bool = False

    def path(self, ids: Ids) -> str:
        """Return the URL with these IDs."""
        return (self.address or self.route).format_map(ids)


def report(name: str, query: str = "", path: str = "", dark: bool = False) -> ShownPage:
    """Return a page of the report of the demo's funnel. path: below the report."""
    address = "&".join(filter(None, (f"/funnels/{{funnel}}{path}?timezone=Europe/Berlin", query)))
    return ShownPage(name, f"/funnels/{{funnel_id}}{path}", address, dark=dark)


ON_BASIC = "[{{%22property%22:%22plan%22,%22operator%22:%22equals%22,%22value%22:%22basic%22}}]"
IN_COHORT = ON_BASIC.replace("plan", "$cohort").replace("basic", "{cohort}")
"""Filters in an address."""

PAGES = (
    ShownPage("login", "/login", signed_in=False, dark=True),
    ShownPage("reset-password", "/reset-password", signed_in=False),
    ShownPage("new-password", "/reset-password/new", "/reset-password/new#x", signed_in=False),
    ShownPage("unsubscribe", "/unsubscribe", "/unsubscribe?token=x", signed_in=False),
    ShownPage("confirm-email", "/confirm-email", "/confirm-email?token=x"),
    ShownPage("secured", "/login/secured"),
    ShownPage("signup", "/signup", signed_in=False),
    ShownPage("welcome", "/welcome"),
    ShownPage("welcome-waiting", "/welcome/{website_id}", "/welcome/{silent}"),
    ShownPage("welcome-arrived", "/welcome/{website_id}", "/welcome/{website}"),
    ShownPage("funnels", "/funnels", dark=True),
    ShownPage("funnel-new", "/funnels/new"),
    report("report", dark=True),
    report("report-trend", "show=trend&bars=steps", dark=True),
    report("report-times", "show=times"),
    report("report-compare", "show=compare"),
    report("report-drivers", "show=drivers&step=1"),
    report("report-flows", "show=flows&of=visitor"),
    report("report-next", "show=next&step=1"),
    report("report-forecasts", "show=forecasts"),
    report("report-quality", "show=quality"),
    report("report-other-tools", "show=otherTools&countLike=posthog&shown=61"),
    report(
        "report-asked", f"breakdown=$country&window=12h&settled=true&filters={ON_BASIC}", dark=True
    ),
    report("report-periods", "period=settled&compare=previous", dark=True),
    report("report-units", "step=2&outcome=droppedOff", path="/units"),
    report(
        "report-units-event",
        "step=1&eventType=Event&eventName=payment_failed&hasEvent=false",
        path="/units",
    ),
    report("report-trace", path="/units/{unit}", dark=True),
    report("report-share", "period=30d&breakdown=plan", path="/share"),
    report("report-receipt", "period=30d", path="/receipt"),
    ShownPage("shared", "/s/{name}", "/s/{share}", signed_in=False, dark=True),
    ShownPage("funnel-edit", "/funnels/{funnel_id}/edit", "/funnels/{funnel}/edit", dark=True),
    ShownPage("goals", "/goals"),
    ShownPage("goal-new", "/goals/new"),
    ShownPage("goal-edit", "/goals/{goal_id}/edit", "/goals/{goal}/edit"),
    ShownPage("segments", "/segments"),
    ShownPage("segment-new", "/segments/new"),
    ShownPage("segment-edit", "/segments/{segment_id}/edit", "/segments/{segment}/edit", dark=True),
    report("report-segment", f"segment={{segment}}&filters={ON_BASIC}", dark=True),
    ShownPage("cohorts", "/cohorts"),
    ShownPage("cohort", "/cohorts/{cohort_id}", "/cohorts/{cohort}", dark=True),
    report("report-cohort", f"filters={IN_COHORT}"),
    ShownPage("internal-traffic", "/settings/internal-traffic"),
    ShownPage("links", "/links"),
    ShownPage("link-new", "/links/new", "/links/new?from={link}"),
    ShownPage("links-upload", "/links/upload"),
    ShownPage("link-edit", "/links/{link_id}/edit", "/links/{link}/edit"),
    ShownPage("link", "/links/{link_id}", "/links/{link}?period=7d", dark=True),
    ShownPage(
        "attribution",
        "/attribution",
        "/attribution?groupBy=source&funnelId={funnel}&timezone=Europe/Berlin",
        dark=True,
    ),
    ShownPage("live", "/live", dark=True),
    ShownPage("live-attempt", "/live", "/live?property={property}&value={value}"),
    ShownPage("live-refused", "/refused"),
    ShownPage("system", "/system", dark=True),
    ShownPage("visitors", "/visitors"),
    ShownPage("visitors-none", "/visitors", "/visitors?search=nobody-has-this-id"),
    ShownPage(
        "visitor", "/visitors/{visitor_id}", "/visitors/{visitor}?websiteId={blog}", dark=True
    ),
    ShownPage("imports", "/imports", dark=True),
    ShownPage("import", "/imports/{import_id}", "/imports/{import}"),
    ShownPage("import-undo", "/imports/{import_id}/undo", "/imports/{import}/undo"),
    ShownPage("import-checked", "/imports/{import_id}", "/imports/{checked}", dark=True),
    ShownPage("import-mapping", "/imports/{import_id}", "/imports/{mapping}", dark=True),
    ShownPage("import-started", "/imports/{import_id}", "/imports/{started}", dark=True),
    ShownPage("funnel-first", "/funnels/new", "/funnels/new?import={started}"),
    ShownPage("mappings", "/mappings", dark=True),
    ShownPage("exports", "/exports", dark=True),
    ShownPage("deletions", "/deletions"),
    ShownPage("deletion-new", "/deletions/new"),
    ShownPage(
        "deletion-confirm", "/deletions/new", "/deletions/new?websiteId={blog}&visitorId={visitor}"
    ),
    ShownPage("settings-websites", "/settings/websites", dark=True),
    ShownPage("settings-website-new", "/settings/websites/new"),
    ShownPage(
        "settings-website", "/settings/websites/{website_id}", "/settings/websites/{website}"
    ),
    ShownPage(
        "settings-app", "/settings/websites/{website_id}", "/settings/websites/{app}", dark=True
    ),
    ShownPage("alerts", "/alerts"),
    ShownPage("alert", "/alerts/{alert_id}", "/alerts/{alert}", dark=True),
    ShownPage("alert-new", "/alerts/new", "/alerts/new?funnelId={funnel}"),
    ShownPage("alert-edit", "/alerts/{alert_id}/edit", "/alerts/{alert}/edit"),
    ShownPage("settings-api-keys", "/settings/api-keys"),
    ShownPage("settings-workspace", "/settings/workspace"),
    ShownPage("settings-members", "/settings/members", dark=True),
    ShownPage("invited", "/signup", "/signup?invitation={invitation}", signed_in=False),
    ShownPage("settings-shares", "/settings/shares"),
    ShownPage("settings-webhooks", "/settings/webhooks"),
    ShownPage(
        "webhook", "/settings/webhooks/{webhook_id}", "/settings/webhooks/{webhook}", dark=True
    ),
    ShownPage("webhook-new", "/settings/webhooks/new"),
    ShownPage(
        "webhook-edit", "/settings/webhooks/{webhook_id}/edit", "/settings/webhooks/{webhook}/edit"
    ),
    ShownPage("settings-receipts", "/settings/receipts"),
    ShownPage("receipt", "/receipts/{receipt_id}", "/receipts/{receipt}", dark=True),
    ShownPage("settings-audit-log", "/settings/audit-log"),
    ShownPage("settings-account", "/settings/account"),
)

ONLY_LEAD_ON = {
    *("/", "/connect", "/login/sso", "/login/sso/callback", "/settings"),
    "/alerts/messages/{message_id}",
}
"""Routes of pages without content, such as redirects."""

PARTS = {"/funnels/{funnel_id}/row", "/funnels/{funnel_id}/outcomes"}
"""Routes of fragments that pages load separately."""
