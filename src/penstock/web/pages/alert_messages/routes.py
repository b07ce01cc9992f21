"""The address in a message of an alert whose report names values of properties.

The message itself must not name them, so its address leads members to the report.
"""

from litestar.response import Redirect

from penstock.alerts.service import AlertService
from penstock.web.page_routes import page
from penstock.web.view import View


@page("/alerts/messages/{message_id:str}")
def message_report(view: View, message_id: str, alerts: AlertService) -> Redirect:
    return Redirect(alerts.report_path(view.workspace_id, message_id), status_code=302)


ROUTES = (message_report,)
