"""`penstock links import` and `export` as real processes against a real service."""

import pytest

from tests.cli import commands
from tests.links.conftest import APP, LINKS
from tests.records import new_website
from tests.serving import error_of, output_of


@pytest.fixture(scope="module")
def app(service):
    return new_website(service.client, **APP | {"kind": "mobile"})


def run(service, command, *arguments):
    return commands.run(service, "links", command, *arguments)


def test_links_are_imported_checked_and_exported(service, app, tmp_path):
    file, copy = tmp_path / "links.csv", tmp_path / "copy.csv"
    header = "websiteId,slug,name,destinationPath\n"
    file.write_text(f"{header}{app},one,One,/1\n{app},two,Two,/2\n")
    output = output_of(run(service, "import", "--dry-run", file))
    assert (
        output == "2 links would be created, 0 would be updated, 0 unchanged, 0 rows with errors.\n"
    )
    assert service.client.get(LINKS).json()["total"] == 0
    output = output_of(run(service, "import", file))
    assert output == "2 links created, 0 updated, 0 unchanged, 0 rows with errors.\n"
    assert run(service, "export", copy).returncode == 0
    assert "0 updated, 2 unchanged" in run(service, "import", copy).stdout
    assert run(service, "export").stdout.replace("\r\n", "\n") == copy.read_text()


def test_faults_are_listed_by_row_and_nothing_is_changed(service, app, tmp_path):
    file = tmp_path / "faulty.csv"
    file.write_text(f"websiteId,slug,name,destinationPath\n{app},Three,Three,/3\n")
    error = error_of(run(service, "import", file))
    assert "Row 2, slug: Must be 1 to 64 characters" in error
    assert "Nothing was changed." in error
