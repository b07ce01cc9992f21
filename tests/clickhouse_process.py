"""Runs a ClickHouse server for tests, made from the engine that Penstock embeds.

The embedded engine is `clickhouse-local`, which can open a server's listeners: ClickHouse's own
handlers for HTTP and TCP, with its users, rights and distributed tables. The engine's Python client
cannot do this, but its extension module can.

    python tests/clickhouse_process.py FOLDER [FETCH_PORT UUID]

FOLDER contains `config.xml`, with ports, users and clusters. The server ends when its standard
input is closed. FETCH_PORT and UUID make it a replica (`tests.replicas.complete_engine`).
"""

import importlib.util
import os
import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

_SERVE = """
SYSTEM START LISTEN TCP;
SYSTEM START LISTEN HTTP;
SELECT sum(sleepEachRow(1)) FROM system.numbers
SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0, max_threads = 1,
    log_queries = 0
"""
"""Statements that start the listeners. The last statement never ends."""


def _library() -> str:
    package = importlib.util.find_spec("chdb")
    assert package is not None
    assert package.submodule_search_locations is not None
    return str(Path(package.submodule_search_locations[0], "_chdb.abi3.so"))


def _engine(path: str) -> Any:
    """The extension module. Importing `chdb` would start another engine in this process."""
    loader = ExtensionFileLoader("_chdb", path)
    spec = importlib.util.spec_from_file_location("_chdb", path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def main(folder: str, *replica: str) -> None:
    library = _library()
    os.chdir(folder)  # the engine reads `config.xml` from the current folder
    Thread(target=_end_with_input, daemon=True).start()
    engine = _engine(library)
    if replica:
        # Python finds the modules of the tests only in the folder above this file's.
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from tests.replicas.complete_engine import complete_engine

        complete_engine(library, int(replica[0]), UUID(replica[1]))
    try:
        engine.query(_SERVE, "TSV", path=str(Path(folder, "data")))
    except BaseException as error:
        print("server ended:", error, file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    main(*sys.argv[1:])
