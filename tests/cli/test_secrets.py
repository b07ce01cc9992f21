"""Secrets of a running service: none in its log, and its files are its user's alone."""

import hashlib
import hmac
import stat
from pathlib import Path

import pyotp
import pytest

from tests.serving import Served
from tests.waiting import eventually

PASSWORD, NEW_PASSWORD, WRONG_PASSWORD = "canary-password", "canary-changed", "canary-wrong"
SIGNING_SECRET = "whsec_Y2FuYXJ5LXNpZ25pbmc="
AWAY = {
    "PENSTOCK_SMTP_URL": "smtp+insecure://user:canary-smtp@127.0.0.1:1",
    "PENSTOCK_MAIL_FROM": "penstock@example.com",
    "PENSTOCK_OIDC_ISSUER": "http://127.0.0.1:1",
    "PENSTOCK_OIDC_CLIENT_ID": "penstock",
    "PENSTOCK_OIDC_CLIENT_SECRET": "canary-oidc",
}
"""A mail server and an identity provider that do not answer."""
COLLECTOR_PASSWORD, COLLECTOR_TOKEN = "canary-collector", "canary-header"
COLLECTOR = {
    "PENSTOCK_OTLP_ENDPOINT": f"http://penstock:{COLLECTOR_PASSWORD}@127.0.0.1:9",
    "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={COLLECTOR_TOKEN}",
    "OTEL_BSP_SCHEDULE_DELAY": "100",
}
"""Nothing listens there, so what the exporter says of its failures is in the log too."""
APP = {"kind": "mobile", "androidPackage": "com.example.shop"}


def modes(folder: Path) -> dict[str, str]:
    """Permissions of the folder and of everything in it that others may read."""
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in (folder, *folder.rglob("*"))
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    }


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts two services")
def test_no_secret_is_logged_at_debug_level_and_all_files_are_private(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "imports").mkdir(parents=True)
    old_file = data / "imports" / "from-an-earlier-version"
    old_file.write_text("x")
    (data / "penstock.lock").touch()  # every version makes it
    for path, mode in ((data, 0o755), (data / "imports", 0o755), (old_file, 0o644)):
        path.chmod(mode)
    with Served(data, PENSTOCK_LOG_LEVEL="debug", **AWAY, **COLLECTOR) as service:
        client, secrets = service.client, {PASSWORD, NEW_PASSWORD, WRONG_PASSWORD, SIGNING_SECRET}
        secrets |= {"canary-smtp", "canary-oidc", COLLECTOR_PASSWORD, COLLECTOR_TOKEN}
        account = {"email": "owner@example.com", "password": PASSWORD}
        assert client.post("/api/auth/signup", json={**account, "workspaceName": "Acme"}).is_success
        secrets.add(client.cookies["service_session"])
        client.post("/api/auth/login", json=account | {"password": WRONG_PASSWORD})
        assert client.post("/api/auth/login", json=account).is_success
        secrets.add(client.cookies["service_session"])
        change = {"current": PASSWORD, "new": NEW_PASSWORD}
        assert client.post("/api/auth/password", json=change).is_success
        enrolment = client.post("/api/auth/second-factor", json={"password": NEW_PASSWORD}).json()
        secrets.add(enrolment["secret"])
        code = pyotp.TOTP(enrolment["secret"]).now()
        confirmed = client.post("/api/auth/second-factor/confirm", json={"code": code}).json()
        secrets |= set(confirmed["recoveryCodes"])
        new_account = account | {"password": NEW_PASSWORD}
        assert client.post("/api/auth/login", json=new_account).status_code == 401
        secrets.add(client.cookies["service_pending_log_in"])
        recovery_code = {"code": confirmed["recoveryCodes"][0]}
        assert client.post("/api/auth/login/code", json=recovery_code).is_success
        secrets.add(client.cookies["service_session"])
        invitation = {"email": "member@example.com", "role": "member"}
        url = client.post("/api/settings/invitations", json=invitation).json()["url"]
        secrets.add(url.partition("invitation=")[2])
        client.get(url)
        key = client.post("/api/settings/api-keys", json={"name": "k"}).json()["key"]
        secrets.add(key)
        site = client.post("/api/settings/websites", json={"name": "Shop", **APP}).json()["id"]
        path = f"/api/settings/websites/{site}"
        identity_secret = client.post(f"{path}/identity-secrets").json()["secret"]
        secrets.add(identity_secret)
        assert client.put(
            f"{path}/providers/stripe", json={"signingSecret": SIGNING_SECRET}
        ).is_success
        client.post(f"/api/providers/stripe/{site}", json={}, headers={"Stripe-Signature": key})
        user_hash = hmac.new(identity_secret.encode(), b"ada", hashlib.sha256).hexdigest()
        secrets.add(user_hash)
        identity = {"websiteId": site, "visitorId": "v", "userId": "ada", "userHash": user_hash}
        assert client.post("/api/identify", json=identity).is_success
        client.post("/api/identify", json=identity | {"unknown": 1})
        bearer = {"Authorization": f"Bearer {key}"}
        client.post("/api/v1/events", json={"websiteId": site, "password": key}, headers=bearer)
        client.get("/api/funnels", headers={"Authorization": f"Bearer {key}x"})
        link = {"websiteId": site, "name": "L", "slug": "canary", "destinationPath": "/"}
        hosted = client.post("/api/mobile/deferred-links", json=link, headers=bearer).json()
        client.get(hosted["hostedUrl"], headers={"User-Agent": "Android 14; Mobile"})
        client.get("/api/nothing", params={"token": key})
        forgotten = {"email": account["email"]}
        assert client.post("/api/auth/password-resets", json=forgotten).is_success
        eventually(lambda: "mail_not_sent" in service.output())
        assert client.get("/login/sso").status_code == 503
        assert client.post("/api/auth/logout").is_success
        assert service.stop() == 0
    log = service.output()
    secrets |= set((data / "secret.key").read_text().split())
    assert len(secrets) == 28
    assert [secret for secret in secrets if secret in log] == []
    assert modes(data) == {}
    with Served(data) as service:
        assert service.stop() == 0
    assert modes(data) == {}
