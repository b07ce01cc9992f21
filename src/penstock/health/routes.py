"""`/health/live` and `/health/ready`: open to all, so they name no host and no data."""

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.base.clock import iso_or_none
from penstock.base.worker import WorkerHealth
from penstock.health.service import HealthService
from penstock.http.answers import answer


@get("/health/live", sync_to_thread=False)
def live() -> Response[bytes]:
    return answer({"status": "live"})


@get("/health/ready")
async def ready(health: NamedDependency[HealthService]) -> Response[bytes]:
    readiness = await health.readiness()
    document = {
        "status": "ready" if readiness.is_ready else "unavailable",
        **readiness.stores,
        "workers": [_worker(worker) for worker in readiness.workers],
    }
    return answer(document, status=200 if readiness.is_ready else 503)


def _worker(health: WorkerHealth) -> dict[str, Any]:
    return {
        "name": health.name,
        "lastSuccessAt": iso_or_none(health.last_success_at_ms),
        "failingSince": iso_or_none(health.failing_since_ms),
        "error": health.error,
    }


ROUTES = (live, ready)
