"""Processes that tests start and kill, forked from a process that has imported the application.

Imports take most of the time of starting a command, and the tests start about two hundred. The
standard library's fork server imports once for each pytest worker. A forked process runs the module
like `python -m`, with its own memory, files and signals.
"""

import atexit
import faulthandler
import multiprocessing
import os
import resource
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import TextIO, cast

from tests import programs

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.preloaded"])


def end_fork_server() -> None:
    """End the fork server, if it runs, and wait for it, so that its processor time counts."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


def new_python(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    descriptors: tuple[int, int] | None = None,
) -> subprocess.Popen[bytes]:
    """Like `ForkedProcess`, but start a new interpreter that imports everything itself, as in real
    use.
    """
    programs.require("starts_service")
    with stdout.open("ab") as output, stderr.open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=environment,
            preexec_fn=None
            if descriptors is None
            else partial(resource.setrlimit, resource.RLIMIT_NOFILE, descriptors),
        )


class ForkedProcess:
    """A running module, with the same methods as `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str],
        stdout: Path,
        stderr: Path,
        descriptors: tuple[int, int] | None = None,
    ) -> None:
        """stdout, stderr: output files, possibly the same.

        descriptors: soft and hard limit of open files.
        """
        programs.require("starts_service")
        stdout.touch()
        stderr.touch()
        self._process = _CONTEXT.Process(
            target=_run,
            args=(module, arguments, dict(environment), Path.cwd(), stdout, stderr, descriptors),
            daemon=True,  # The process ends with the tests.
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None if the process is running."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait for the exit code. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    stdout: Path,
    stderr: Path,
    descriptors: tuple[int, int] | None,
) -> None:
    """Act as `python -m module` in the forked process."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)
    sys.stdin = _stream(0, Path(os.devnull), os.O_RDONLY)
    sys.stdout = _stream(1, stdout, os.O_WRONLY | os.O_APPEND)
    sys.stderr = _stream(2, stderr, os.O_WRONLY | os.O_APPEND)
    sys.argv = [module, *arguments]
    faulthandler.register(signal.SIGUSR2)  # writes the stack of each thread to stderr
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # multiprocessing does not call them at exit


def _stream(number: int, path: Path, flags: int) -> TextIO:
    """Redirect the standard stream with this number to the file."""
    file = os.open(path, flags)
    os.dup2(file, number)
    os.close(file)
    mode = "r" if flags == os.O_RDONLY else "w"
    stream = os.fdopen(number, mode, encoding="utf-8", buffering=1, closefd=False)
    return cast("TextIO", stream)
