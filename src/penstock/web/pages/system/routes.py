"""Shows owners the state of this installation: the pipeline, the stores, this node."""

from anyio import to_thread
from litestar import Response, get
from litestar.di import NamedDependency

from penstock.base.errors import Forbidden
from penstock.events.quarantine.service import QuarantineService
from penstock.health.service import HealthService
from penstock.health.store_sizes import StoreSizes
from penstock.web.view import View


@get("/system")
async def system(
    view: NamedDependency[View],
    health: NamedDependency[HealthService],
    store_sizes: NamedDependency[StoreSizes],
    quarantine: NamedDependency[QuarantineService],
) -> Response[bytes]:
    if not view.is_owner:
        raise Forbidden("Only owners of the workspace can see this page.", code="owners_only")
    readiness = await health.readiness()

    def render() -> Response[bytes]:
        sizes = store_sizes.read()
        return view.render(
            "system/system.html",
            parts=("system",),
            readiness=readiness,
            counts=quarantine.counts(view.workspace_id),
            sizes=sizes,
            stores=store_sizes.stores(sizes),
        )

    return await to_thread.run_sync(render)


ROUTES = (system,)
