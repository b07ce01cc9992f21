"""A start imports only what a service without traffic needs; everything costs memory and time."""

import sys
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from penstock.metadb.database import Database
from tests.other_programs import run_program
from tests.serving import environment

START = """
import sys
import penstock.cli.main
import penstock.cli.serve
from penstock.cli.stores import open_services
from penstock.settings import Settings
with open_services(Settings(data=sys.argv[1])) as services:
    from penstock.app import build_app
    build_app(services)
    print(*sorted({name.partition(".")[0] for name in sys.modules}))
    services.warehouse.close()
    services.database.close()
"""
LARGE = {
    *("alembic", "mako", "psycopg", "psycopg_binary"),  # migrations, and PostgreSQL
    *("joserfc", "httpx"),  # single sign-on
    *("pyarrow", "numpy", "pandas"),  # exports, and comparisons
    *("rich", "pygments", "ua_parser_rs", "crawlerdetect"),
}


def packages_of_start(data: Path) -> set[str]:
    command = [sys.executable, "-c", START, str(data)]
    return set(run_program(command, environment=environment(), may_warn=True).split())


@pytest.mark.slow("starts the service twice, once on new stores")
def test_a_start_imports_no_package_that_only_some_services_or_requests_need(
    tmp_path: Path,
) -> None:
    packages_of_start(tmp_path / "data")  # creates the stores, which needs Alembic
    imported = packages_of_start(tmp_path / "data")
    assert {"chdb", "litestar", "sqlalchemy"} <= imported
    assert not imported & LARGE


def test_known_versions_are_those_of_alembic() -> None:
    config = Config()
    config.set_main_option("script_location", "penstock.metadb:migrations")
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    assert Database.known_versions() == [script.revision for script in scripts][::-1]
