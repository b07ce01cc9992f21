"""Query parameters of pages about alerts."""

from penstock.funnels.results.schema import ReportQuery


class NewAlertQuery(ReportQuery):
    """The question of the report from which an alert is made.

    funnel_id: funnel of the report; without one, the form is empty.
    """

    funnel_id: str | None = None
