"""A receipt of form 1, made by an earlier version, is verified and recounted after an upgrade."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from penstock import __version__
from tests.answers import body_of, values_of
from tests.receipts.build_form_1 import ARCHIVE, VERSION, event
from tests.receipts.conftest import kinds
from tests.serving import Served, output_of, penstock

pytestmark = pytest.mark.usefixtures("starts_service")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    return tmp_path


@pytest.fixture
def earlier(folder: Path) -> Any:
    """What the earlier version returned: a key, the file of the receipt and the public keys."""
    return json.loads((folder / "earlier.json").read_text())


@pytest.mark.slow("runs a command")
def test_its_file_is_verified(folder: Path, earlier: Any) -> None:
    for name, content in (("receipt.json", earlier["file"]), ("keys.json", earlier["keys"])):
        (folder / name).write_text(json.dumps(content))
    receipt, keys = folder / "receipt.json", folder / "keys.json"
    output = output_of(penstock("check-receipt", str(receipt), "--key", str(keys)))
    assert "is genuine: its signature fits the key." in output
    assert "Board, March: 33.9% of 59 settled visitors completed" in output
    assert "Steps:   checkout_started 59, address_entered 40, order_placed 20" in output


@pytest.mark.slow("upgrades both stores")
def test_it_is_recounted_after_the_upgrade(folder: Path, earlier: Any) -> None:
    data, file = folder / "data", earlier["file"]
    output_of(penstock("migrate", "--data", str(data)))
    with Served(data) as service:
        client = service.client
        client.headers["Authorization"] = f"Bearer {earlier['key']}"
        path = f"/api/receipts/{file['receipt']['id']}"
        assert body_of(client.get(f"{path}/file")) == file
        opened = body_of(client.get(path))
        assert values_of(opened, "isUnchanged", "recountIsEqual", "gone") == (True, True, None)
        assert kinds(opened) == ["version"]
        assert f"({VERSION}, now {__version__})" in opened["sentences"][1]
        assert opened["receipt"]["figures"] == file["receipt"]["figures"]
        late = {"events": [event(earlier["websiteId"], 4, 2)]}  # visitor-4 lacked the last step
        body_of(client.post("/api/v1/events/batch", json=late), 202)
        opened = body_of(client.get(path))
        assert kinds(opened) == ["late", "version"]
        assert values_of(opened, "isUnchanged", "recountIsEqual") == (False, True)
        assert opened["sentences"][0].endswith(
            ": 33.9% becomes 35.6%; without what came later it is 33.9% again."
        )
        assert body_of(client.post("/api/receipts/open", json=file)) == opened
