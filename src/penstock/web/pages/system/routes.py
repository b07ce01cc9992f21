"""Shows owners the state of this installation: the pipeline, the stores, this node."""

from anyio import from_thread
from litestar import Response

from penstock.base.errors import Forbidden
from penstock.events.quarantine.service import QuarantineService
from penstock.health.service import HealthService
from penstock.health.store_sizes import StoreSizes
from penstock.web.page_routes import page
from penstock.web.view import View


@page("/system")
def system(
    view: View, health: HealthService, store_sizes: StoreSizes, quarantine: QuarantineService
) -> Response[bytes]:
    if not view.is_owner:
        raise Forbidden("Only owners of the workspace can see this page.", code="owners_only")
    sizes = store_sizes.read()
    return view.render(
        "system/system.html",
        parts=("system",),
        readiness=from_thread.run(health.readiness),
        counts=quarantine.counts(view.workspace_id).data,
        sizes=sizes,
        stores=store_sizes.stores(sizes),
    )


ROUTES = (system,)
