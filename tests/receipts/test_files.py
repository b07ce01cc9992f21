"""Files of receipts, the keys that sign them, and the commands."""

import json
import os
from copy import deepcopy
from pathlib import Path

import pytest
from docsite.pages import blocks
from sqlalchemy import update
from typer.testing import CliRunner

from penstock.base.clock import system_clock
from penstock.cli.main import app
from penstock.metadb.secret_box import SecretBox, seal_all
from penstock.metadb.tables import receipt_keys, receipts
from penstock.receipts.keys import ReceiptKeys
from penstock.receipts.signatures import canonical_json, new_key_pair, sign
from tests.answers import body_of, faults
from tests.cases import cases
from tests.receipts.conftest import kinds
from tests.records import create
from tests.serving import Served, output_of, penstock
from tests.tenant import join, new_browser

pytestmark = pytest.mark.usefixtures("warehouse")

KEYS = "/.well-known/penstock-receipt-keys.json"


@pytest.fixture
def command(monkeypatch):
    """Run a command in this process. Returns its exit code and its output on one line."""
    monkeypatch.setattr("penstock.cli.configuration.configure_logs", lambda _: None)
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)

    def run(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return result.exit_code, " ".join(result.output.split())

    return run


def saved(path, content):
    path.write_text(json.dumps(content, indent=1))
    return path


def test_a_file_is_verified_without_the_service(keeping, workspace, command, tmp_path):
    receipt = keeping.keep(name="Ünits", breakdown="plan")
    path = saved(tmp_path / "receipt.json", keeping.file(receipt))
    listed = body_of(new_browser(workspace).get(KEYS))  # without an account
    [key] = listed["keys"]
    assert (key["keyId"], key["retiredAt"]) == (receipt["keyId"], None)
    for known in (key["publicKey"], saved(tmp_path / "keys.json", listed)):
        code, output = command("check-receipt", path, "--key", known)
        assert code == 0, output
        assert f"The receipt {receipt['id']} is genuine: its signature fits the key." in output
        assert "Ünits: 60.0% of 20 settled visitors completed" in output
        assert "Steps: A 20 (100.0%), B 12 (60.0%)" in output
        assert "Cohorts: the figures of 2, whose values only the service can show" in output
        assert receipt["url"] in output


def test_the_examples_of_the_documentation_work(keeping, command, tmp_path, monkeypatch):
    form, line = (block.text for block in blocks(Path("docs/receipts.md")))
    form = json.loads(form) | {"funnelId": keeping.funnel}
    receipt = create(keeping.client, "/api/receipts", form)
    assert receipt["timezone"] == "Europe/Berlin"
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "receipt.json", keeping.file(receipt))
    saved(tmp_path / "penstock-receipt-keys.json", body_of(keeping.client.get(KEYS)))
    _, *arguments = line.split()
    assert command(*arguments)[0] == 0


def forged(file, change):
    copy = deepcopy(file)
    change(copy["receipt"])
    return copy


def test_a_forged_file_is_refused(keeping, command, tmp_path):
    file = keeping.file(keeping.keep())
    [key] = body_of(keeping.client.get(KEYS))["keys"]
    own = new_key_pair()
    changes = [
        lambda receipt: receipt["figures"].update(part=13),
        lambda receipt: receipt["sums"]["events"][0].update(number=1),
        lambda receipt: receipt.update(at="2026-01-01T00:00:00.000Z"),
        lambda receipt: receipt.update(more=1),
        lambda receipt: receipt.pop("uses"),
    ]
    forgeries = [forged(file, change) for change in changes]
    signature = sign(own.private, canonical_json(forgeries[0]["receipt"]))
    forgeries += [
        {**forgeries[0], "signature": signature},
        {**file, "signature": ""},
        {**file, "signature": file["signature"][::-1]},
        {**file, "algorithm": "none"},
    ]
    for forgery in forgeries:
        path = saved(tmp_path / "forged.json", forgery)
        code, output = command("check-receipt", path, "--key", key["publicKey"])
        assert code == 1, output
        assert "genuine" not in output
        answer = keeping.client.post("/api/receipts/open", json=forgery)
        assert faults(answer) == {"receipt": "not_verified"}
    for text in ("", "[]", "{}", '{"receipt": {}}', "[" * 100_000):
        (tmp_path / "other.json").write_text(text)
        code, output = command("check-receipt", tmp_path / "other.json", "--key", key["publicKey"])
        assert code == 1
        assert "This file is not a receipt." in output
    path = saved(tmp_path / "receipt.json", file)
    assert command("check-receipt", path, "--key", own.public)[0] == 1
    code, output = command("check-receipt", path, "--key", "no-key")
    assert (code, "is not an Ed25519 public key" in output) == (1, True)
    assert command("check-receipt", tmp_path / "missing", "--key", own.public)[0] == 2


def test_a_file_with_more_than_what_was_signed_is_refused(keeping, command, tmp_path):
    """Whoever reads such a file may see something else than what the command prints."""
    text = json.dumps(keeping.file(keeping.keep()))
    [key] = body_of(keeping.client.get(KEYS))["keys"]
    path = tmp_path / "receipt.json"
    for more in (
        '{"rate": "99%",' + text[1:],
        '{"receipt": {"rate": "99%"},' + text[1:],
        text.replace('"part":', '"part": 99, "part":', 1),
        text.replace('"signature": "', '"signature": "\\ud800', 1),
        text.replace('"receipt": {', '"receipt": {"note": "\\ud800", ', 1),
        text + " " * 2**21,
    ):
        path.write_text(more)
        code, output = command("check-receipt", path, "--key", key["publicKey"])
        assert (code, "genuine" in output) == (1, False), output
    path.write_text(text.replace(key["keyId"], "\\ud800\\u001b[2J"))
    code, output = command("check-receipt", path, "--key", key["publicKey"])
    assert (code, "[2J" in output) == (0, False), output


def test_a_file_of_another_version_is_named(keeping, services):
    keeping.keep()
    keys = services.receipt_keys
    key = keys.current()
    receipt = {"format": 99}
    signature = keys.sign(key, canonical_json(receipt))
    head = {"algorithm": "Ed25519", "keyId": key.id}
    file = {**head, "receipt": receipt, "signature": signature}
    answer = keeping.client.post("/api/receipts/open", json=file)
    assert faults(answer) == {"receipt": "not_verified"}
    assert "another version of Penstock" in answer.text


@cases(
    "keys",
    [
        '{"keys": [{"keyId": "a", "publicKey": 5}]}',
        '{"keys": [{"keyId": ["a"], "publicKey": ""}]}',
        '{"keys": ' + "[" * 100_000,
        "{}",
        "x" * 5_000,
    ],
)
def test_what_is_no_key_is_named(keeping, command, tmp_path, keys):
    path = saved(tmp_path / "receipt.json", keeping.file(keeping.keep()))
    (tmp_path / "keys.json").write_text(keys)
    for given in (keys, tmp_path / "keys.json"):
        code, output = command("check-receipt", path, "--key", given)
        assert code == 1, output
        assert "key" in output.partition("receipt.json: ")[2]


def test_a_receipt_that_was_changed_in_the_database_is_refused(keeping, services):
    receipt = keeping.keep()
    file = keeping.file(receipt)
    file["receipt"]["figures"]["part"] = 13
    with services.database.write() as db:
        db.execute(update(receipts).values(document=canonical_json(file["receipt"])))
    answer = keeping.client.get(f"/api/receipts/{receipt['id']}")
    assert faults(answer) == {"receipt": "not_verified"}


def test_rotated_keys_stay_listed_and_their_receipts_stay_valid(keeping, services, settings):
    first = keeping.keep()
    box = SecretBox.from_settings(settings)
    rotated = ReceiptKeys(services.database, box, system_clock).rotate()
    last = keeping.keep()
    assert (last["keyId"], first["keyId"] != rotated) == (rotated, True)
    keys = body_of(keeping.client.get(KEYS))["keys"]
    assert [key["keyId"] for key in keys] == [rotated, first["keyId"]]
    assert keys[1]["retiredAt"]
    for receipt in (first, last):
        assert keeping.open(receipt)["isUnchanged"]
    with services.database.read() as db:
        stored = db.execute(receipt_keys.select()).all()
    assert sorted(row.private_key is None for row in stored) == [False, True]
    sealed = [row.sums_key for row in stored] + [row.private_key for row in stored]
    assert all(text is None or text.startswith("fernet:") for text in sealed)
    seal_all(services.database, box)


def test_a_file_opens_after_its_receipt_was_revoked(keeping, workspace):
    receipt = keeping.keep()
    file = keeping.file(receipt)
    keeping.client.delete(f"/api/receipts/{receipt['id']}").raise_for_status()
    opened = body_of(join(workspace, "viewer").post("/api/receipts/open", json=file))
    assert opened["isUnchanged"]
    assert kinds(opened) == ["restored"]
    assert opened["receipt"]["createdBy"] is None


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts two services and runs three commands")
def test_a_restore_is_named_and_nothing_is_counted_again(tmp_path, command):
    """The receipt is newer than the backup: what it counted is only partly in it."""
    data, copy, restored = tmp_path / "data", tmp_path / "copy", tmp_path / "restored"
    steps = [{"type": "Event", "value": name} for name in ("seen", "bought")]

    def send(client, *visitors):
        events = [
            {"websiteId": website_id, "visitorId": visitor, "event": name}
            for visitor in visitors
            for name in ("seen", "bought")
        ]
        body_of(client.post("/api/v1/events/batch", json={"events": events}), 202)

    with Served(data) as service:
        key, website_id = service.first_account()
        client = service.client
        funnel = {"name": "Shop", "conversionWindowSeconds": 3600, "steps": steps}
        form = {"funnelId": body_of(client.post("/api/funnels", json=funnel), 201)["id"]}
        send(client, "ann", "bob")
        first = body_of(client.post("/api/receipts", json=form), 201)
        output_of(penstock("backup", str(copy), "--data", str(data)))
        send(client, "cid")
        receipt = body_of(client.post("/api/receipts", json=form), 201)
        file = body_of(client.get(f"/api/receipts/{receipt['id']}/file"))
        assert file["receipt"]["figures"]["entered"] == 3
    assert command("restore", copy, "--data", restored)[0] == 0
    with Served(restored) as service:
        client = service.client
        client.headers["Authorization"] = f"Bearer {key}"
        assert client.get(f"/api/receipts/{receipt['id']}").status_code == 404
        opened = body_of(client.post("/api/receipts/open", json=file))
        assert kinds(opened) == ["gone", "restored", "restored"]
        assert opened["gone"] == {"events": 2, "units": 1}
        assert opened["recount"] is None
        assert "the service was restored on " in opened["sentences"][0]
        assert body_of(client.get(f"/api/receipts/{first['id']}"))["isUnchanged"]
    code, output = command("rotate-receipt-key", "--data", restored)
    assert (code, "signs receipts from now on" in output) == (0, True)
