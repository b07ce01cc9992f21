"""Drivers of a loss: the properties and events that lost units have more or less often."""

import json
from dataclasses import dataclass
from typing import Any

from penstock.funnels.definitions.builtins import trait_of
from penstock.funnels.definitions.schema import MAX_FILTERS
from penstock.funnels.drivers import DriverRecord
from penstock.funnels.questions import DRIVERS
from penstock.funnels.results.schema import filters_as_text
from penstock.web.pages.report.panels.context import ReportContext
from penstock.web.pages.report.panels.scale import scale_of


@dataclass(frozen=True, slots=True)
class DriverRow:
    """A driver, and the address of the report on only these units or, for an event, of their list.

    href: None if there is no such address.
    """

    driver: DriverRecord
    href: str | None

    @property
    def trait(self) -> str | None:
        """Name of the trait; None for a property or an event."""
        return trait_of(self.driver.property) if self.driver.property else None


def what_differs(context: ReportContext) -> dict[str, Any]:
    """Return the drivers of the loss after a step, with a scale for their intervals."""
    more = context.chosen(DRIVERS)
    record = context.ask(DRIVERS, more)
    clear = [driver for driver in record.data if driver.clear]
    intervals = [driver.difference_interval for driver in clear]
    return {
        "drivers": record,
        "rows": [DriverRow(driver, _address(context, driver, more["step"])) for driver in clear],
        "scale": scale_of([(item.lower, item.upper) for item in intervals], zero=True, ticks=7),
        "more": more,
    }


def _address(context: ReportContext, driver: DriverRecord, step: int) -> str | None:
    """Return the report on only the units of a driver, or the list of the units with an event.

    None if the query has too many filters.
    """
    page, query = context.page, context.query
    if driver.kind == "event":
        return page.units(
            step=step,
            eventName=driver.name,
            eventType=driver.event_type,
            of=None if query.of == "unit" else query.of,
        )
    if driver.property in page.definition.breakdown_properties:
        cohort = {**(query.cohort or {}), driver.property: driver.value}
        return page.view.address(cohort=json.dumps(cohort, ensure_ascii=False), page=None)
    filters = query.filters or ()
    if driver.filter is None or len(filters) >= MAX_FILTERS:
        return None
    return page.view.address(filters=filters_as_text([*filters, driver.filter]), page=None)
