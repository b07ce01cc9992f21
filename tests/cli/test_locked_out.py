"""`penstock reset-password` and `penstock reset-second-factor`, beside a running service."""

import re
from pathlib import Path

import pyotp
import pytest

from tests.serving import Served, error_of, output_of, penstock

ACCOUNT = {"email": "ann@example.com", "password": "correct horse battery"}
NEW = "another horse battery"


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts a service and five commands")
def test_the_operator_lets_people_in_again_while_the_service_runs(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    assert "contains no Penstock data" in penstock("reset-password", "x@y.z", "--data", data).stderr
    with Served(tmp_path / "data") as service:
        client = service.client
        form = {**ACCOUNT, "workspaceName": "Acme"}
        assert client.post("/api/auth/signup", json=form).status_code == 201
        enrolment = client.post("/api/auth/second-factor", json={"password": ACCOUNT["password"]})
        code = {"code": pyotp.TOTP(enrolment.json()["secret"]).now()}
        assert client.post("/api/auth/second-factor/confirm", json=code).status_code == 200

        error = error_of(penstock("reset-password", "bob@example.com", "--data", data))
        assert error == "penstock: bob@example.com has no account\n"
        output = output_of(penstock("reset-password", ACCOUNT["email"], "--data", data))
        [token] = re.findall(r"/reset-password/new#([\w-]+)\n", output)
        new = {"token": token, "password": NEW}
        assert client.post("/api/auth/password-resets/redeem", json=new).status_code == 204
        log_in = ACCOUNT | {"password": NEW}
        answer = client.post("/api/auth/login", json=log_in)
        assert answer.json()["code"] == "second_factor_required"
        output_of(penstock("reset-second-factor", ACCOUNT["email"], "--data", data))
        assert client.post("/api/auth/login", json=log_in).status_code == 200
        log = client.get("/api/settings/audit-log").json()["data"]
        assert [(entry["action"], entry["actor"]) for entry in log[:4]] == [
            ("signed_in", ACCOUNT["email"]),
            ("second_factor_reset", "operator"),
            ("password_reset", ACCOUNT["email"]),
            ("password_reset_requested", "operator"),
        ]
