"""A ClickHouse server for tests: `tests.clickhouse_http` in a process of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.serving import environment
from tests.waiting import PATIENCE_S


class ClickHouseServer:
    """The process. url: stays the same over restarts, and so does the data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._port = "0"
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.clickhouse_http", self._folder, self._port],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=environment(),
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the server did not start"
        self._port = self.url.rpartition(":")[2]

    @property
    def port(self) -> int:
        return int(self._port)

    def kill(self) -> None:
        """Send SIGKILL. `start` starts it again."""
        self._process.kill()
        self._process.wait(timeout=PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def stop(self) -> None:
        """End it for good."""
        self.kill()
        shutil.rmtree(self._folder)
