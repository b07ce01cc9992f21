"""Query parameters for the attribution page."""

from collections.abc import Mapping

from penstock.funnels.campaigns.schema import AttributionQuery
from penstock.http.period import ReportPeriod


class AttributionPageQuery(AttributionQuery, ReportPeriod):
    """The whole state of the page."""

    def parameters(self, now_ms: int, window_s: int = 0) -> Mapping[str, str]:
        """Return the same query as API parameters, without paging. window_s: see `days`."""
        parameters = {
            "groupBy": self.group_by.value,
            "websiteId": self.website_id,
            **self.span_parameters(now_ms, window_s),
            "funnelId": self.funnel_id,
            "touch": self.touch if self.funnel_id else None,
            "sort": self.sort.value,
            "internal": "true" if self.internal and self.funnel_id else None,
        }
        return {name: value for name, value in parameters.items() if value}
