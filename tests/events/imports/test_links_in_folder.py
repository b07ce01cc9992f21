"""An import reads only its own file, not what a link in the data folder leads to."""

import json
from pathlib import Path

from penstock.settings import Settings
from tests.events.conftest import ndjson, upload
from tests.tenant import Tenant
from tests.waiting import eventually

LINE = {"type": "event", "name": "a", "userId": "ada", "timestamp": "2024-05-01T10:00:00Z"}


def test_a_link_in_place_of_an_import_is_not_followed(
    workspace: Tenant, settings: Settings, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.ndjson"
    outside.write_bytes(ndjson([LINE, {"secret": "of another program"}]))
    sent = upload(workspace, [LINE], dryRun="true").json()
    path = f"/api/imports/{sent['id']}"
    eventually(lambda: workspace.client.get(path).json()["state"] == "checked")
    [file] = (settings.data / "staged").iterdir()
    file.unlink()
    file.symlink_to(outside)
    assert workspace.client.post(f"{path}/start").status_code == 200
    job = eventually(lambda: (now := workspace.client.get(path).json())["finishedAt"] and now)
    assert (job["state"], job["accepted"]) == ("failed", 0)
    assert "replaced by a link" in json.dumps(job)
    assert "another program" not in workspace.client.get(f"{path}/rejects").text
    assert outside.exists()
