"""`penstock links import` and `export` as real processes against a real service."""

import pytest

from tests.links.conftest import APP, LINKS
from tests.serving import Served, penstock


@pytest.fixture(scope="module")
def service(starts_service, tmp_path_factory):
    with Served(tmp_path_factory.mktemp("link_files") / "data") as running:
        running.key, _ = running.first_account()
        app = running.client.post("/api/settings/websites", json=APP | {"kind": "mobile"})
        running.app = app.json()["id"]
        yield running


def run(service, command, *arguments):
    keys = {"PENSTOCK_URL": service.url, "PENSTOCK_API_KEY": service.key}
    return penstock("links", command, *map(str, arguments), **keys)


def test_links_are_imported_checked_and_exported(service, tmp_path):
    file, copy = tmp_path / "links.csv", tmp_path / "copy.csv"
    header = "websiteId,slug,name,destinationPath\n"
    file.write_text(f"{header}{service.app},one,One,/1\n{service.app},two,Two,/2\n")
    dry = run(service, "import", "--dry-run", file)
    assert (dry.returncode, dry.stdout) == (
        0,
        "2 links would be created, 0 would be updated, 0 unchanged, 0 rows with errors.\n",
    )
    assert service.client.get(LINKS).json()["total"] == 0
    done = run(service, "import", file)
    assert (done.returncode, done.stdout) == (
        0,
        "2 links created, 0 updated, 0 unchanged, 0 rows with errors.\n",
    )
    assert run(service, "export", copy).returncode == 0
    assert "0 updated, 2 unchanged" in run(service, "import", copy).stdout
    assert run(service, "export").stdout.replace("\r\n", "\n") == copy.read_text()


def test_faults_are_listed_by_row_and_nothing_is_changed(service, tmp_path):
    file = tmp_path / "faulty.csv"
    file.write_text(f"websiteId,slug,name,destinationPath\n{service.app},Three,Three,/3\n")
    result = run(service, "import", file)
    assert result.returncode == 1
    assert "Row 2, slug: Must be 1 to 64 characters" in result.stderr
    assert "Nothing was changed." in result.stderr
