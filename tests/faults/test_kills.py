"""SIGKILL at every boundary of the path of data: nothing is lost, doubled or stuck.

`make faults` runs every boundary at several passes; otherwise a sample runs.
"""

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.faulty_service import KILLS
from tests.faults.workload import Workload
from tests.serving import Served, penstock

pytestmark = pytest.mark.full("kills at each boundary")

ALL = os.environ.get("PENSTOCK_FAULTS") == "all"
SAMPLE = ("shipment_after_insert",)
PASSES = (1, 2, 5)


def cases() -> list[tuple[str, int]]:
    if not ALL:
        return [(boundary, 2) for boundary in SAMPLE]
    return [(boundary, number) for boundary in KILLS for number in PASSES]


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts two services")
@pytest.mark.parametrize(("boundary", "number"), cases())
def test_a_kill_at_a_boundary_loses_and_doubles_nothing(
    tmp_path: Path, boundary: str, number: int, record_property: Callable[[str, object], None]
) -> None:
    data = tmp_path / "data"
    with Served(data) as service:
        workload = Workload(service)
        assert service.stop() == 0
    program = ("tests.faults.faulty_service", boundary, str(number))
    with Served(data, program=program) as service:
        workload.work(service)
        if boundary.startswith("backup"):
            penstock("backup", str(tmp_path / "backup"), "--data", str(data))
        with suppress(subprocess.TimeoutExpired):  # fewer passes than the case names
            service.process.wait(5)
        was_killed = service.process.poll() is not None
        assert was_killed or number > 1, "the boundary was never passed"
        record_property("kills", int(was_killed))
        service.kill()
    workload.finish(data)
