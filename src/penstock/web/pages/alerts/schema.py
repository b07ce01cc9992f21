"""Query parameters of pages about alerts."""

from penstock.web.pages.schema import FunnelPageQuery


class NewAlertQuery(FunnelPageQuery):
    """The question of the report from which an alert is made.

    funnel_id: funnel of the report; without one, the form is empty.
    """

    funnel_id: str | None = None
