"""`penstock export` and `penstock import` with an S3-compatible server.

See docs/moving-out.md.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

from penstock.base.row_files import RowFormat
from penstock.exports.folder import ExportFolder, open_export
from penstock.exports.storage import _UPLOAD_BYTES, Bucket, ExportFailed
from tests.cli.test_export import new_website, send
from tests.proxy import FaultyProxy
from tests.serving import PENSTOCK, Served, environment, penstock
from tests.waiting import PATIENCE_S, eventually

PACKAGES = Path(__file__).parents[2] / ".venv/storage-server"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-storage",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Storage:
    """A running S3-compatible server. It accepts all credentials until `require_credentials`."""

    def __init__(self, log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-p", "0"],
                env=environment(PYTHONPATH=str(PACKAGES)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

        def address() -> str:
            _, _, rest = log.read_text("utf-8").partition("Running on ")
            return rest.split()[0] if "\n" in rest else ""

        self.url = eventually(address, within_s=6 * PATIENCE_S)
        # It gives private objects to any request that looks signed.
        signed = "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/aws4_request"
        self._client = httpx.Client(
            base_url=self.url, timeout=PATIENCE_S, headers={"Authorization": signed}
        )

    def create_bucket(self, name: str) -> None:
        assert self._client.put(f"/{name}").status_code == 200

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Return all objects that are no markers of folders."""
        answer = self._client.get(f"/{bucket}", params={"list-type": 2})
        keys = [
            element.text or ""
            for element in ElementTree.fromstring(answer.text).iter()
            if element.tag.endswith("}Key")
        ]
        return {
            key: self._client.get(f"/{bucket}/{key}").content
            for key in keys
            if not key.endswith("/")
        }

    def clear_bucket(self, name: str) -> None:
        for key in self.objects(name):
            assert self._client.delete(f"/{name}/{key}").status_code == 204

    def listings(self) -> list[str]:
        """Return the lines of the log about requests that list objects."""
        return [line for line in self._log.read_text("utf-8").splitlines() if "list-type=2" in line]

    def require_credentials(self, required: bool) -> None:
        count = b"0" if required else b"inf"
        assert self._client.post("/moto-api/reset-auth", content=count).status_code == 200


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    running = Storage(tmp_path_factory.mktemp("storage") / "log")
    yield running
    running.process.terminate()
    running.process.wait()


@pytest.fixture(scope="module")
def service(starts_service, tmp_path_factory):
    with Served(tmp_path_factory.mktemp("export") / "data") as running:
        running.key, running.website = running.first_account()
        yield running


def settings_of(service, storage):
    return {
        **CREDENTIALS,
        "AWS_ENDPOINT_URL": storage.url,
        "PENSTOCK_URL": service.url,
        "PENSTOCK_API_KEY": service.key,
    }


def run(service, storage, *arguments, **settings):
    return penstock("export", *arguments, **{**settings_of(service, storage), **settings})


@pytest.mark.slow("starts the service and the storage of this module")
def test_an_export_to_a_bucket_is_complete_has_no_secret_and_can_be_imported(
    service, storage, tmp_path
):
    storage.create_bucket("complete")
    website_id = new_website(service)
    send(service, website_id, range(3))
    steps = [{"type": "Event", "value": name} for name in ("step", "never")]
    funnel = service.client.post("/api/funnels", json={"name": "Steps", "steps": steps}).json()
    result = run(service, storage, "s3://complete/acme")
    assert result.returncode == 0, result.stderr
    objects = storage.objects("complete")
    manifest = json.loads(objects["acme/manifest.json"])
    for file in manifest["files"]:
        content = objects[f"acme/{file['path']}"]
        assert (len(content), sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    assert {f"acme/{file['path']}" for file in manifest["files"]} == (
        objects.keys() - {"acme/manifest.json"}
    )
    assert f"acme/events/{website_id}/2026-09-21.parquet" in objects
    assert f"acme/outcomes/{funnel['id']}.parquet" in objects
    [recorded] = [
        each
        for each in service.client.get("/api/exports").json()["data"]
        if each["destinationId"] == manifest["id"]
    ]
    assert recorded["destination"] == "s3://complete/acme"
    everything = b"".join(objects.values()) + result.stdout.encode() + result.stderr.encode()
    for secret in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
        assert CREDENTIALS[secret].encode() not in everything

    send(service, website_id, [1], prefix="late")
    assert (
        "2 unchanged days not written again" in run(service, storage, "s3://complete/acme").stdout
    )

    with Served(tmp_path / "other") as other:
        other.key, _ = other.first_account()
        imported = penstock(
            "import", "--from", "penstock", "s3://complete/acme", **settings_of(other, storage)
        )
        assert imported.returncode == 0, imported.stderr
        assert "12 events imported" in imported.stdout
        [copy] = other.client.get("/api/funnels").json()["data"]
        reports = [
            each.client.get(f"/api/funnels/{id_}/results").json()["aggregate"]
            for each, id_ in ((service, funnel["id"]), (other, copy["id"]))
        ]
        assert reports[0] == reports[1]
        assert reports[0]["entered"] == 3


@pytest.mark.full("kills the command, as for a folder")
def test_a_killed_export_to_a_bucket_continues_and_never_looks_complete(service, storage):
    storage.create_bucket("killed")
    website_id = new_website(service)
    send(service, website_id, range(60))
    command = subprocess.Popen(
        [sys.executable, "-m", *PENSTOCK, "export", "s3://killed"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(**settings_of(service, storage)),
    )

    def is_noted():
        return f"events/{website_id}/".encode() in storage.objects("killed").get(
            "unfinished.ndjson", b""
        )

    eventually(is_noted, within_s=4 * PATIENCE_S)
    command.kill()
    command.wait()
    assert "manifest.json" not in storage.objects("killed")
    refused = penstock(
        "import", "--from", "penstock", "s3://killed", **settings_of(service, storage)
    )
    assert refused.returncode == 1
    assert "the export in s3://killed is not finished" in refused.stderr
    result = run(service, storage, "s3://killed")
    assert result.returncode == 0, result.stderr
    assert "\n0 unchanged days" not in result.stdout
    assert "unchanged day" in result.stdout
    objects = storage.objects("killed")
    assert len([key for key in objects if key.startswith(f"events/{website_id}/")]) == 60
    assert "unfinished.ndjson" not in objects
    for file in json.loads(objects["manifest.json"])["files"]:
        assert sha256(objects[file["path"]]).hexdigest() == file["sha256"]


@pytest.mark.parametrize(
    ("destination", "message", "code"),
    [
        ("s3://missing/acme", "the bucket missing does not exist; create it first", 1),
        ("s3://key:secret@bucket/acme", "without credentials; they come from", 2),
        ("gs://bucket/acme", "must be a folder or s3://bucket/prefix", 2),
        ("s3:/bucket/acme", "write a bucket as s3://bucket/prefix", 2),
        ("S3:/secret@bucket", "write a bucket as s3://bucket/prefix", 2),
    ],
)
def test_a_wrong_bucket_is_explained(service, storage, destination, message, code):
    result = run(service, storage, destination)
    assert (result.returncode, message in result.stderr) == (code, True), result.stderr
    assert "secret" not in result.stderr


@pytest.fixture
def shared(storage, monkeypatch):
    """Two connections to one place in a bucket."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    storage.create_bucket("shared")
    yield tuple(Bucket("s3://shared/acme", storage.url) for _ in range(2))
    storage.clear_bucket("shared")


def begin(stack, bucket):
    return stack.enter_context(open_export(bucket, RowFormat.NDJSON, ["web_1"]))


@pytest.mark.usefixtures("warehouse")
def test_an_export_fails_if_a_later_one_into_the_same_bucket_has_begun(
    shared: tuple[Bucket, Bucket], storage: Storage
) -> None:
    first, second = shared
    with ExitStack() as stack:
        begin(stack, first)
        begin(stack, second)
        second.require_exclusive()
        before = storage.objects("shared")
        with pytest.raises(ExportFailed, match="another export into s3://shared/acme has begun"):
            first.require_exclusive()
    assert storage.objects("shared") == before


@pytest.mark.usefixtures("warehouse")
def test_an_export_fails_if_another_begins_while_it_writes_its_manifest(
    shared: tuple[Bucket, Bucket], storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = shared
    with ExitStack() as stack:
        earlier = begin(stack, first)
        replace = first.replace

        def begin_another(path: str, content: bytes) -> None:
            if path == "manifest.json":
                later.append(begin(stack, second))
            replace(path, content)

        later = list[ExportFolder]()
        monkeypatch.setattr(first, "replace", begin_another)
        with pytest.raises(ExportFailed, match="another export into s3://shared/acme has begun"):
            earlier.finish("Acme")
        assert storage.objects("shared").keys() == {"acme/unfinished.ndjson"}
        [last] = later
        last.write("goals.ndjson", "goals", [b"{}\n"])
        last.finish("Acme")
    assert storage.objects("shared").keys() == {"acme/goals.ndjson", "acme/manifest.json"}


@pytest.mark.usefixtures("warehouse")
def test_an_export_restores_its_list_that_an_earlier_one_removed(
    shared: tuple[Bucket, Bucket], storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = shared
    with ExitStack() as stack:
        earlier = begin(stack, first)
        remove = first.remove

        def begin_another(path: str) -> None:
            if path == "unfinished.ndjson":
                later.append(begin(stack, second))
            remove(path)

        later = list[ExportFolder]()
        monkeypatch.setattr(first, "remove", begin_another)
        earlier.finish("Acme")
        assert storage.objects("shared") == {}
        second.require_exclusive()
        assert storage.objects("shared").keys() == {"acme/unfinished.ndjson"}
        later[0].finish("Acme")
    assert storage.objects("shared").keys() == {"acme/manifest.json"}


@pytest.mark.usefixtures("warehouse")
def test_a_stalled_export_fails_if_another_began_and_ended_meanwhile(
    shared: tuple[Bucket, Bucket], storage: Storage
) -> None:
    first, second = shared
    with ExitStack() as stack:
        stalled = begin(stack, first)
        stalled.write("goals.ndjson", "goals", [b"{}\n"])
        with open_export(second, RowFormat.NDJSON, ["web_1"]) as later:
            later.write("goals.ndjson", "goals", [b"{}\n"])
            later.write("funnels.ndjson", "funnels", [b"{}\n"])
            later.finish("Acme")
        complete = storage.objects("shared")
        with pytest.raises(ExportFailed, match="another export into s3://shared/acme has begun"):
            stalled.finish("Acme")
    assert storage.objects("shared") == complete


@pytest.mark.usefixtures("warehouse")
def test_an_export_fails_if_another_has_changed_its_files(
    shared: tuple[Bucket, Bucket], storage: Storage
) -> None:
    first, _ = shared
    day = f"events/web_{'0' * 26}/2026-09-21.ndjson"
    with ExitStack() as stack:
        export = begin(stack, first)
        export.write(day, "events", [b"{}\n"], day="2026-09-21")
        first.replace(day, b"{}\n{}\n")
        with pytest.raises(ExportFailed, match=f"something else has changed {day}"):
            export.finish("Acme")
    assert "acme/manifest.json" not in storage.objects("shared")


@pytest.mark.usefixtures("warehouse")
def test_a_signal_during_an_upload_waits_until_the_file_is_complete(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyArrow completes an interrupted upload, which would give a part of the file its name."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    storage.create_bucket("signalled")
    proxy = FaultyProxy(int(storage.url.rsplit(":", 1)[1]))
    bucket = Bucket("s3://signalled", f"http://127.0.0.1:{proxy.port}")
    proxy.run_before("PUT /signalled/events.ndjson", lambda: os.kill(os.getpid(), signal.SIGTERM))
    handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    chunks = [bytes(_UPLOAD_BYTES)] * 3
    try:
        with pytest.raises(SystemExit), ExitStack() as stack:
            begin(stack, bucket).write("events.ndjson", "events", chunks)
    finally:
        signal.signal(signal.SIGTERM, handler)
        proxy.close()
    assert len(storage.objects("signalled")["events.ndjson"]) == 3 * _UPLOAD_BYTES


@pytest.mark.parametrize("size", [0, 3 * _UPLOAD_BYTES], ids=["small", "in-parts"])
def test_a_bucket_that_hangs_ends_the_export_in_time(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The limit is shorter here. An export waits for one request with its repeats, and no other."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("penstock.exports.storage._REQUEST_S", 1)
    storage.create_bucket(f"hanging-{size}")
    proxy = FaultyProxy(int(storage.url.rsplit(":", 1)[1]))
    bucket = Bucket(f"s3://hanging-{size}", f"http://127.0.0.1:{proxy.port}")
    chunks = [b"{}\n", *[bytes(_UPLOAD_BYTES)] * (size // _UPLOAD_BYTES)]

    def export() -> None:
        with open_export(bucket, RowFormat.NDJSON, ["web_1"]) as exported:
            exported.write("goals.ndjson", "goals", [b"{}\n"])
            proxy.freeze()
            exported.write("events.ndjson", "events", chunks)

    began_s = time.monotonic()
    try:
        with pytest.raises(ExportFailed, match="S3 does not respond for"):
            export()
    finally:
        proxy.close()
    assert time.monotonic() - began_s < 15
    assert "manifest.json" not in storage.objects(f"hanging-{size}")


@pytest.mark.usefixtures("warehouse")
def test_a_full_bucket_is_refused_after_a_few_requests(
    shared: tuple[Bucket, Bucket], storage: Storage
) -> None:
    first, second = shared
    with ExitStack() as stack:
        begin(stack, first)
        for number in range(20):
            first.replace(f"events/web_{number}/2026-09-21.ndjson", b"{}\n")
        first.remove("unfinished.ndjson")
    before = len(storage.listings())
    with second.opened():
        assert not second.is_empty()
    listings = storage.listings()[before:]
    assert 1 <= len(listings) <= 3
    assert all("delimiter=" in request for request in listings)  # one folder, not all below it


def test_wrong_credentials_are_explained(service, storage):
    storage.create_bucket("private")
    storage.require_credentials(True)
    try:
        result = run(service, storage, "s3://private/acme")
    finally:
        storage.require_credentials(False)
    message = "S3 refused access to s3://private/acme; check AWS_ACCESS_KEY_ID"
    assert (result.returncode, message in result.stderr) == (1, True), result.stderr
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in result.stderr


def test_a_service_that_does_not_answer_is_explained(service, storage):
    result = run(
        service, storage, "s3://bucket/acme", "--endpoint-url", "http://127.0.0.1:9", HOME=os.sep
    )
    assert result.returncode == 1
    assert "S3 cannot be reached for s3://bucket/acme; check --endpoint-url" in result.stderr
