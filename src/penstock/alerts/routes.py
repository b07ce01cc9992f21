"""HTTP routes for alerts."""

from penstock.accounts.model import Caller
from penstock.alerts.schema import (
    AlertChange,
    AlertIn,
    AlertMessageRecord,
    AlertRecord,
    CheckRecord,
    SnoozeIn,
)
from penstock.alerts.service import AlertService
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.schema import PageQuery, SearchQuery
from penstock.jobs.cancellable import slow_route

_ALL = "/api/alerts"
_ONE = "/api/alerts/{alert_id:str}"


@slow_route("POST", _ALL, "Create an alert", validated_by="alerts", tag="alerts")
def create_alert(caller: Caller, alerts: AlertService, alert: AlertIn) -> AlertRecord:
    """Names are unique in the workspace. A workspace has at most 50 alerts.

    The response has the secrets of new webhooks, which are not shown again.
    """
    return alerts.create(caller, alert)


@route("GET", _ALL, "Alerts", tag="alerts")
def list_alerts(caller: Caller, alerts: AlertService, query: SearchQuery) -> Listing[AlertRecord]:
    """List alerts, newest first."""
    return alerts.page(caller.workspace_id, query.pagination, query.search)


@route("GET", _ONE, "An alert", tag="alerts")
def read_alert(caller: Caller, alerts: AlertService, alert_id: str) -> AlertRecord:
    return alerts.get(caller.workspace_id, alert_id)


@slow_route("PATCH", _ONE, "Change an alert", validated_by="alerts", tag="alerts")
def change_alert(
    caller: Caller, alerts: AlertService, alert_id: str, change: AlertChange
) -> AlertRecord:
    """Fields that you leave out keep their values. To keep a channel, send its `id`."""
    return alerts.change(caller, alert_id, change)


@route("DELETE", _ONE, "Delete an alert", tag="alerts")
def delete_alert(caller: Caller, alerts: AlertService, alert_id: str) -> None:
    """Deletes the alert with its history. Messages that wait are not sent."""
    alerts.delete(caller, alert_id)


@route("POST", f"{_ONE}/snooze", "Snooze an alert", status=200, tag="alerts")
def snooze_alert(
    caller: Caller, alerts: AlertService, alert_id: str, snooze: SnoozeIn
) -> AlertRecord:
    """The alert is still checked. Its messages wait, unless they are reversed in the meantime."""
    return alerts.snooze(caller, alert_id, snooze)


@slow_route("POST", f"{_ONE}/test", "Test an alert", status=200, tag="alerts")
def test_alert(caller: Caller, alerts: AlertService, alert_id: str) -> AlertMessageRecord:
    """Sends a test message with the current figures to all channels, also during quiet hours.

    Read `/messages` to see which of them received it.
    """
    return alerts.send_test(caller, alert_id)


@route("GET", f"{_ONE}/checks", "History of an alert", tag="alerts")
def list_alert_checks(
    caller: Caller, alerts: AlertService, alert_id: str, query: PageQuery
) -> Listing[CheckRecord]:
    """Lists the periods that were judged, newest first, with the figures of that moment."""
    return alerts.checks(caller.workspace_id, alert_id, query.pagination)


@route("GET", f"{_ONE}/messages", "Messages of an alert", tag="alerts")
def list_alert_messages(
    caller: Caller, alerts: AlertService, alert_id: str, query: PageQuery
) -> Listing[AlertMessageRecord]:
    """Lists messages, newest first, with their deliveries."""
    return alerts.messages(caller.workspace_id, alert_id, query.pagination)


ROUTES = (
    create_alert,
    list_alerts,
    read_alert,
    change_alert,
    delete_alert,
    snooze_alert,
    test_alert,
    list_alert_checks,
    list_alert_messages,
)
