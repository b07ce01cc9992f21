"""HTTP routes `/health/live` and `/health/ready`. They are public, so they do not reveal hosts or
data.
"""

from typing import Any

from litestar import Response

from penstock.base.clock import iso, iso_or_none
from penstock.base.worker import WorkerHealth
from penstock.health.model import MissingEvents, OutcomesHealth, Readiness, Resources
from penstock.health.service import HealthService
from penstock.http.answers import answer
from penstock.http.handlers import route
from penstock.metadb.clock import LARGE_DIFFERENCE_MS

_DAMAGED = "The metadata database is damaged: restore a backup."
_NEWER_SCHEMA = "A newer version of Penstock has upgraded the stores: upgrade this node too."
_DISK_FULL = "The disk is full: free some space, such as by cancelling imports."
_DISK_LOW = (
    "The disk has too little free space: events are stored, but uploads, dry runs, imports, "
    "exports and new stored outcomes wait."
)


@route("GET", "/health/live")
async def live() -> Response[bytes]:
    return answer({"status": "live"})


@route("GET", "/health/ready")
async def ready(health: HealthService) -> Response[bytes]:
    readiness = await health.readiness()
    document = {
        "status": _status(readiness),
        **readiness.stores,
        "reason": _reason(readiness),
        "outbox": _outbox(readiness),
        "resources": _resources(readiness.resources),
        "clockAheadSeconds": None
        if readiness.clock_ahead_ms is None
        else readiness.clock_ahead_ms / 1000,
        "missingEvents": _missing(readiness.missing),
        "storedOutcomes": _outcomes(readiness.outcomes),
        "workers": [_worker(worker) for worker in readiness.workers],
    }
    return answer(document, status=200 if readiness.is_ready else 503)


def _status(readiness: Readiness) -> str:
    if not readiness.is_ready:
        return "unavailable"
    return "degraded" if readiness.is_degraded else "ready"


def _reason(readiness: Readiness) -> str | None:
    if readiness.is_damaged:
        return _DAMAGED
    if readiness.has_newer_schema:
        return _NEWER_SCHEMA
    if right := readiness.missing_right:
        return f"The event store refuses a right: GRANT {right} to its user."
    if readiness.is_disk_full:
        return _DISK_FULL
    if readiness.silence:
        return readiness.silence
    if readiness.is_degraded:
        return _DISK_LOW
    return _clock_reason(readiness.clock_ahead_ms or 0)


def _clock_reason(ahead_ms: int) -> str | None:
    if abs(ahead_ms) <= LARGE_DIFFERENCE_MS:
        return None
    direction = "ahead of" if ahead_ms > 0 else "behind"
    return (
        f"The clock of this machine is {abs(ahead_ms) / 1000:.1f} seconds {direction} the metadata "
        "database's: synchronise it. Penstock uses the database's."
    )


def _outbox(readiness: Readiness) -> dict[str, Any] | None:
    state = readiness.outbox
    if state is None:
        return None
    return {
        "bundles": state.bundles,
        "oldestAgeSeconds": state.oldest_age_s,
        "tooOld": readiness.is_outbox_old,
        "failedShipments": state.failures,
        "lastFailedShipment": {
            "at": iso(state.last_failure.at_ms),
            "error": state.last_failure.error,
        }
        if state.last_failure
        else None,
    }


def _resources(resources: Resources | None) -> dict[str, int] | None:
    if resources is None:
        return None
    return {
        "openDescriptors": resources.open_descriptors,
        "descriptorLimit": resources.descriptor_limit,
        "memoryBytes": resources.memory,
        "diskFreeBytes": resources.disk_free,
        "diskTotalBytes": resources.disk_total,
        "minDiskFreeBytes": resources.min_disk_free,
    }


def _missing(missing: MissingEvents) -> dict[str, Any]:
    return {"events": missing.events, "comparedAt": iso_or_none(missing.compared_at_ms)}


def _outcomes(state: OutcomesHealth) -> dict[str, Any]:
    return {
        "stored": state.stored,
        "differences": state.differences,
        "lastDifferenceAt": iso_or_none(state.last_difference_at_ms),
    }


def _worker(health: WorkerHealth) -> dict[str, Any]:
    return {
        "name": health.name,
        "lastSuccessAt": iso_or_none(health.last_success_at_ms),
        "failingSince": iso_or_none(health.failing_since_ms),
        "error": health.error,
    }


ROUTES = (live, ready)
