"""Measures time and memory, and runs measurements in processes."""

import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Name = TypeVar("Name", bound=str)
_LOOK_S, _IDLE_SHARE, _PATIENCE_S = 0.3, 0.15, 20


def in_new_process(
    function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Call a module's function in a new process, and return its result.

    The embedded engine opens only one data folder per process, and peak memory is measured per
    process.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_call, partial(function, *args, **kwargs)).result()


def _call(function: Callable[[], Result]) -> Result:
    """Call the function, and convert errors to text, because not every error can be sent to another
    process.
    """
    try:
        return function()
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}"[:400]) from None


def seconds_of(job: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    job()
    return time.perf_counter() - start_s


def best_seconds(jobs: Mapping[Name, Callable[[], object]], rounds: int) -> dict[Name, float]:
    """Return the best time of each job. The jobs take turns, so that noise affects all of them."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            best[name] = min(best[name], seconds_of(job))
    return best


def peak_gb() -> float:
    """Return the peak memory of this process, in GB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024**2


def resident_mb(pid: int) -> float:
    """Return the current memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024**2


def peak_mb(pid: int) -> float:
    """Return the peak memory of a process, in MB."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def wait_until_idle(pid: int) -> None:
    """Wait until a process is almost idle, so that the next one has the machine to itself."""
    until_s, before_s = time.monotonic() + _PATIENCE_S, cpu_s(pid)
    while time.monotonic() < until_s:
        time.sleep(_LOOK_S)
        now_s = cpu_s(pid)
        if now_s - before_s < _LOOK_S * _IDLE_SHARE:
            return
        before_s = now_s


def cpu_s(pid: int) -> float:
    """Return the user and system time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
