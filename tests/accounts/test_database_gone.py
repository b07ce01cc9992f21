"""When the metadata DB goes away while the service runs."""

from collections.abc import Iterator

import pytest

from tests.answers import problem
from tests.conftest import _migrated as migrate
from tests.postgres import PostgresServer, program_folder
from tests.tenant import log_in

pytestmark = pytest.mark.full("halts a PostgreSQL server of its own")


@pytest.fixture
def own_server(starts_database: None) -> Iterator[PostgresServer]:
    folder = program_folder()
    if folder is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    server = PostgresServer(folder)
    yield server
    server.stop()


@pytest.fixture
def metadb_url(own_server: PostgresServer) -> str:
    url = own_server.fresh()
    migrate(url)
    return url


def test_a_database_that_does_not_answer_is_503(server, workspace, own_server):
    own_server.halt()
    for answer in (
        workspace.browser.get("/api/auth/session"),
        workspace.browser.post("/api/settings/websites", json={"name": "Shop", "kind": "web"}),
        log_in(server, workspace.email, "wrong password"),
        server.get("/l/sale"),
    ):
        assert problem(answer) == (503, "store_unavailable")
        assert answer.headers["retry-after"] == "1"
        assert own_server.folder.name not in answer.text
    assert server.get("/health/live").status_code == 200
    assert server.get("/health/ready").status_code == 503
