"""Runs a PostgreSQL server for tests: the system's package, on a Unix socket in a temporary
folder.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests import programs
from tests.waiting import PATIENCE_S

_START_S = 30
_QUICK = (
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "max_connections=200",
    "listen_addresses=",
)


def program_folder() -> Path | None:
    """The folder with `initdb` and `postgres`; None if PostgreSQL is not installed."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = debian[-1] if debian else shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


class PostgresServer:
    """A running server. `fresh()` returns the URL of a new, empty database."""

    def __init__(self, bin_folder: Path) -> None:
        programs.require("starts_database")
        # The path must be short, because a Unix socket's path has at most about 100 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-pg-"))
        self._numbers = count(1)
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root.
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        data = self.folder / "data"
        subprocess.run(
            [
                bin_folder / "initdb",
                "-D",
                data,
                "-U",
                "penstock",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
            ],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._as,
        )
        options = [part for option in _QUICK for part in ("-c", option)]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [bin_folder / "postgres", "-D", data, "-k", self.folder, *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._as,
            )
        self._await_answer()

    def url(self, database: str) -> str:
        return f"postgresql://penstock@/{database}?host={self.folder}"

    def fresh(self) -> str:
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def _await_answer(self) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def halt(self) -> None:
        """Cut all connections and kill the process."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=PATIENCE_S)

    def stop(self) -> None:
        self.halt()
        shutil.rmtree(self.folder)
