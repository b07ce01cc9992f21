"""Disks that are full or fail, a database that hangs or goes, an engine that refuses, a clock.

Each service lives on and recovers by itself; then everything is checked as after a kill.
`make faults` runs them.
"""

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.faults.test_kills import ALL
from tests.faults.workload import Workload
from tests.postgres import PostgresServer
from tests.processes import new_python
from tests.proxy import FaultyProxy
from tests.serving import Served

pytestmark = [
    pytest.mark.usefixtures("starts_service"),
    pytest.mark.full("disks and databases that fail"),
]

full_run_only = pytest.mark.skipif(not ALL, reason="make faults runs it")


@contextmanager
def repeatedly(*actions: Any, every_s: float) -> Iterator[None]:
    """Repeat the actions in turn inside the context; at its end, run the last one."""
    stop = Event()

    def repeat() -> None:
        while not stop.is_set():
            for action in actions:
                action()
                stop.wait(every_s)

    thread = Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        actions[-1]()


def limit_file_size(service: Served, size: int) -> None:
    """Every write beyond this position of a file fails, as EFBIG."""
    soft, hard = size, resource.RLIM_INFINITY
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (soft, hard))


@full_run_only
@pytest.mark.slow("lets every write fail for some seconds")
def test_writes_that_fail_are_never_acknowledged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Served(data) as service:
        workload = Workload(service)

        def fail() -> None:
            limit_file_size(service, 0)

        def repair() -> None:
            limit_file_size(service, resource.RLIM_INFINITY)

        fail()
        assert not workload.work(service), "nothing is acknowledged while writes fail"
        with repeatedly(repair, fail, repair, every_s=0.15):
            workload.work(service)
            time.sleep(0.5)
        workload.run_to_end(service)
        service.kill()
    workload.finish(data)


def preloaded(folder: Path, source: str) -> Path:
    """A library that is compiled from C; skips where no compiler is."""
    library, compiler = folder / f"{source}.so", shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library)]
    subprocess.run([*command, str(Path(__file__).with_name(source)), "-ldl"], check=True)
    return library


@full_run_only
@pytest.mark.slow("lets every write and sync fail for some seconds")
def test_a_disk_with_input_and_output_errors_is_survived_without_a_restart(tmp_path: Path) -> None:
    data, flag = tmp_path / "data", tmp_path / "failing"
    library = preloaded(tmp_path, "failing_disk.c")
    environment = {"LD_PRELOAD": str(library), "FAILING_DISK": str(flag)}
    with Served(data, start=new_python, **environment) as service:
        workload = Workload(service)
        flag.touch()
        assert not workload.work(service), "nothing is acknowledged while writes fail"

        def repair() -> None:
            flag.unlink(missing_ok=True)

        with repeatedly(repair, flag.touch, repair, every_s=0.15):
            workload.work(service)
            time.sleep(0.5)
        workload.run_to_end(service)
        service.kill()
    workload.finish(data)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of this size; skips where none can be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


@full_run_only
@pytest.mark.slow("fills a disk")
def test_a_full_disk_is_survived_without_a_restart(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 200) as disk:
        data, ballast = disk / "data", disk / "ballast"
        with Served(data) as service:
            workload = Workload(service)

            def fill() -> None:
                with ballast.open("wb") as file:
                    try:
                        while True:
                            file.write(bytes(1024 * 1024))
                            file.flush()
                    except OSError:
                        pass

            fill()
            refused = not workload.work(service)
            ballast.unlink()
            assert refused, "a full disk stores nothing"
            workload.run_to_end(service)
            service.kill()
        workload.finish(data)


@full_run_only
@pytest.mark.slow("hangs and halts PostgreSQL")
def test_a_database_that_hangs_again_and_again_is_survived(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    proxy = FaultyProxy(str(postgres_server.folder / ".s.PGSQL.5432"))
    name = postgres_server.fresh().partition("@/")[2].partition("?")[0]
    settings = {"PENSTOCK_DATABASE_URL": f"postgresql://penstock@127.0.0.1:{proxy.port}/{name}"}
    data = tmp_path / "data"
    with Served(data, limits={"database_timeout_s": 2}, **settings) as service:
        workload = Workload(service)
        with repeatedly(proxy.freeze, proxy.thaw, every_s=0.7):
            workload.work(service)
            time.sleep(4)
        workload.run_to_end(service)
        service.kill()
    workload.finish(data, **settings)
    proxy.close()


@full_run_only
@pytest.mark.slow("cuts all connections of PostgreSQL")
def test_a_database_whose_connections_are_cut_is_survived(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    import psycopg

    url = postgres_server.fresh()
    data, settings = tmp_path / "data", {"PENSTOCK_DATABASE_URL": url}

    def cut() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    with Served(data, limits={"database_timeout_s": 2}, **settings) as service:
        workload = Workload(service)
        with repeatedly(cut, every_s=0.1):
            workload.work(service)
            time.sleep(2)
        workload.run_to_end(service)
        service.kill()
    workload.finish(data, **settings)


@full_run_only
@pytest.mark.slow("starts three services")
@pytest.mark.parametrize(("fault", "number"), [("engine_refuses", 6), ("clock_jumps", 40)])
def test_an_engine_that_refuses_and_a_clock_that_jumps_are_survived(
    tmp_path: Path, fault: str, number: int
) -> None:
    data = tmp_path / "data"
    with Served(data) as service:
        workload = Workload(service, deletes=fault != "clock_jumps")
        assert service.stop() == 0
    program = ("tests.faults.faulty_service", fault, str(number))
    with Served(data, program=program) as service:
        workload.run_to_end(service)
        service.kill()
    workload.finish(data)
