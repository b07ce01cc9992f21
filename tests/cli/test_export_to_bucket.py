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
from tests.cli.commands import keys_of, start
from tests.cli.test_export import send, website_with_events
from tests.proxy import FaultyProxy
from tests.records import create, event_steps
from tests.serving import Served, environment, error_of, output_of, penstock
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
            assert self.process.poll() is None, log.read_text("utf-8")
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


def settings_of(service, storage):
    return {**CREDENTIALS, "AWS_ENDPOINT_URL": storage.url, **keys_of(service)}


def run(service, storage, *arguments, **settings):
    return penstock("export", *arguments, **{**settings_of(service, storage), **settings})


@pytest.mark.slow("starts the service and the storage of this module")
def test_an_export_to_a_bucket_is_complete_has_no_secret_and_can_be_imported(
    service, storage, tmp_path
):
    storage.create_bucket("complete")
    website_id = website_with_events(service, range(3))
    body = {"name": "Steps", "steps": event_steps("step", "never")}
    funnel = create(service.client, "/api/funnels", body)
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
    exports = service.client.get("/api/exports").json()["data"]
    [recorded] = [each for each in exports if each["destinationId"] == manifest["id"]]
    assert recorded["destination"] == "s3://complete/acme"
    everything = b"".join(objects.values()) + result.stdout.encode() + result.stderr.encode()
    for secret in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
        assert CREDENTIALS[secret].encode() not in everything

    send(service, website_id, [1], prefix="late")
    again = run(service, storage, "s3://complete/acme")
    assert "2 unchanged days not written again" in again.stdout

    with Served(tmp_path / "other") as other:
        other.key, _ = other.first_account()
        output = output_of(
            penstock(
                "import", "--from", "penstock", "s3://complete/acme", **settings_of(other, storage)
            )
        )
        assert "12 events imported" in output
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
    website_id = website_with_events(service, range(60))
    command = start("export", "s3://killed", **settings_of(service, storage))

    def is_noted():
        return f"events/{website_id}/".encode() in storage.objects("killed").get(
            "unfinished.ndjson", b""
        )

    eventually(is_noted, within_s=4 * PATIENCE_S)
    command.kill()
    command.wait()
    assert "manifest.json" not in storage.objects("killed")
    error = error_of(
        penstock("import", "--from", "penstock", "s3://killed", **settings_of(service, storage))
    )
    assert "the export in s3://killed is not finished" in error
    output = output_of(run(service, storage, "s3://killed"))
    assert "\n0 unchanged days" not in output
    assert "unchanged day" in output
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
    error = error_of(run(service, storage, destination), code)
    assert message in error
    assert "secret" not in error


Connections = tuple[Bucket, Bucket]


@pytest.fixture
def _credentials(monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def shared(warehouse, storage, _credentials):
    """Two connections to one place in a bucket."""
    storage.create_bucket("shared")
    yield tuple(Bucket("s3://shared/acme", storage.url) for _ in range(2))
    storage.clear_bucket("shared")


def anothers_turn():
    return pytest.raises(ExportFailed, match="another export into s3://shared/acme has begun")


def begin(stack, bucket):
    return stack.enter_context(open_export(bucket, RowFormat.NDJSON, ["web_1"]))


def test_an_export_fails_if_a_later_one_into_the_same_bucket_has_begun(
    shared: Connections, storage: Storage
) -> None:
    first, second = shared
    with ExitStack() as stack:
        begin(stack, first)
        begin(stack, second)
        second.require_exclusive()
        before = storage.objects("shared")
        with anothers_turn():
            first.require_exclusive()
    assert storage.objects("shared") == before


def test_an_export_fails_if_another_begins_while_it_writes_its_manifest(
    shared: Connections, storage: Storage, monkeypatch: pytest.MonkeyPatch
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
        with anothers_turn():
            earlier.finish("Acme")
        assert storage.objects("shared").keys() == {"acme/unfinished.ndjson"}
        [last] = later
        last.write("goals.ndjson", "goals", [b"{}\n"])
        last.finish("Acme")
    assert storage.objects("shared").keys() == {"acme/goals.ndjson", "acme/manifest.json"}


def test_an_export_restores_its_list_that_an_earlier_one_removed(
    shared: Connections, storage: Storage, monkeypatch: pytest.MonkeyPatch
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


def test_a_stalled_export_fails_if_another_began_and_ended_meanwhile(
    shared: Connections, storage: Storage
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
        with anothers_turn():
            stalled.finish("Acme")
    assert storage.objects("shared") == complete


def test_an_export_fails_if_another_has_changed_its_files(
    shared: Connections, storage: Storage
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


@pytest.fixture
def proxy(storage):
    between = FaultyProxy(int(storage.url.rsplit(":", 1)[1]))
    yield between
    between.close()


def bucket_behind(proxy, storage, name):
    """Create a bucket, to which a proxy leads."""
    storage.create_bucket(name)
    return Bucket(f"s3://{name}", f"http://127.0.0.1:{proxy.port}")


@pytest.mark.usefixtures("warehouse", "_credentials")
def test_a_signal_during_an_upload_waits_until_the_file_is_complete(
    storage: Storage, proxy: FaultyProxy
) -> None:
    """PyArrow completes an interrupted upload, which would give a part of the file its name."""
    bucket = bucket_behind(proxy, storage, "signalled")
    proxy.run_before("PUT /signalled/events.ndjson", lambda: os.kill(os.getpid(), signal.SIGTERM))
    handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    chunks = [bytes(_UPLOAD_BYTES)] * 3
    try:
        with pytest.raises(SystemExit), ExitStack() as stack:
            begin(stack, bucket).write("events.ndjson", "events", chunks)
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert len(storage.objects("signalled")["events.ndjson"]) == 3 * _UPLOAD_BYTES


@pytest.mark.usefixtures("_credentials")
@pytest.mark.parametrize("size", [0, 3 * _UPLOAD_BYTES], ids=["small", "in-parts"])
def test_a_bucket_that_hangs_ends_the_export_in_time(
    storage: Storage, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The limit is shorter here. An export waits for one request with its repeats, and no other."""
    monkeypatch.setattr("penstock.exports.storage._REQUEST_S", 1)
    bucket = bucket_behind(proxy, storage, f"hanging-{size}")
    chunks = [b"{}\n", *[bytes(_UPLOAD_BYTES)] * (size // _UPLOAD_BYTES)]

    def export() -> None:
        with open_export(bucket, RowFormat.NDJSON, ["web_1"]) as exported:
            exported.write("goals.ndjson", "goals", [b"{}\n"])
            proxy.freeze()
            exported.write("events.ndjson", "events", chunks)

    began_s = time.monotonic()
    with pytest.raises(ExportFailed, match="S3 does not respond for"):
        export()
    assert time.monotonic() - began_s < 15
    assert "manifest.json" not in storage.objects(f"hanging-{size}")


def test_a_full_bucket_is_refused_after_a_few_requests(
    shared: Connections, storage: Storage
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
    error = error_of(result)
    assert "S3 refused access to s3://private/acme; check AWS_ACCESS_KEY_ID" in error
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in error


def test_a_service_that_does_not_answer_is_explained(service, storage):
    flags = ("--endpoint-url", "http://127.0.0.1:9")
    error = error_of(run(service, storage, "s3://bucket/acme", *flags, HOME=os.sep))
    assert "S3 cannot be reached for s3://bucket/acme; check --endpoint-url" in error
