"""The country of a click, by the operator's file."""

import os
import subprocess
import sys

import pytest
from litestar.testing import TestClient
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from penstock.app import build_app, build_services
from penstock.links.geoip import Countries, GeoipUnreadable
from penstock.settings import Settings
from tests.links import agents
from tests.tenant import connecting_from


def write(path, kind="Test-Country", networks=None):
    writer = MMDBWriter(6, kind, ipv4_compatible=True, description="made for a test")
    for network, record in (networks or {"203.0.113.0/24": {"country": {"iso_code": "DE"}}}).items():
        writer.insert_network(IPSet([network]), record)
    writer.to_db_file(str(path))
    return path


NETWORKS = {
    "203.0.113.0/24": {"country": {"iso_code": "DE"}, "city": {"names": {"en": "Berlin"}}},
    "2001:db8::/32": {"country": {"iso_code": "JP"}},
    "198.51.100.0/24": {"continent": {"code": "EU"}},
    "192.0.2.0/24": {"country": "FR"},
}


@pytest.mark.parametrize("kind", ["GeoLite2-Country", "GeoLite2-City", "DBIP-Country-Lite"])
@pytest.mark.parametrize(
    ("address", "country"),
    [
        ("203.0.113.7", "DE"), ("2001:db8::1", "JP"), ("::ffff:203.0.113.7", "DE"), ("198.51.100.1", ""), ("192.0.2.1", ""),
        ("127.0.0.1", ""), ("testclient", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_country_is_that_of_the_address_or_unknown(tmp_path, kind, address, country):
    assert Countries(write(tmp_path / "a.mmdb", kind, NETWORKS)).of(address) == country


def test_without_a_file_every_country_is_unknown():
    assert Countries(None).of("203.0.113.7") == ""


def test_a_click_has_the_country_of_its_address_and_the_address_is_not_kept(settings, clock, warehouse, make_link, tmp_path):
    link = make_link(fallbackUrl="https://www.example.com/")
    with_file = settings.model_copy(update={"geoip": write(tmp_path / "a.mmdb")})
    app = build_app(build_services(with_file, clock, warehouse))
    with TestClient(connecting_from("203.0.113.7", app)) as browser:
        answer = browser.get(f"/l/{link['slug']}", headers={"User-Agent": agents.DESKTOP["edge"]}, follow_redirects=False)
        assert answer.status_code == 302
    rows = warehouse.query("SELECT * FROM clicks WHERE link_id = {link:String}", {"link": link["id"]})
    assert [dict(zip(rows[0], row, strict=True))["country"] for row in rows[1]] == ["DE"]
    assert "203.0.113.7" not in str(rows)


@pytest.mark.parametrize(
    ("proxy", "trusted", "country"),
    [
        ("127.0.0.1", None, "DE"), ("::1", None, "DE"), ("10.1.2.3", None, ""),
        ("10.1.2.3", "192.168.0.1, 10.1.0.0/16", "DE"), ("10.2.2.3", "10.1.0.0/16", ""), ("10.1.2.3", "*", "DE"), ("127.0.0.1", "", ""),
    ],
)  # fmt: skip
def test_the_address_that_a_proxy_tells_is_believed_of_trusted_ones_alone(
    settings, clock, warehouse, make_link, tmp_path, proxy, trusted, country
):
    link = make_link(fallbackUrl="https://www.example.com/")
    asked = {"geoip": write(tmp_path / "a.mmdb")} | ({} if trusted is None else {"trusted_proxies": trusted})
    app = build_app(build_services(settings.model_copy(update=asked), clock, warehouse))
    sent = {"User-Agent": agents.DESKTOP["edge"], "X-Forwarded-For": "203.0.113.7"}
    with TestClient(connecting_from(proxy, app)) as browser:
        assert browser.get(f"/l/{link['slug']}", headers=sent, follow_redirects=False).status_code == 302
    _, rows = warehouse.query("SELECT country FROM clicks WHERE link_id = {link:String}", {"link": link["id"]})
    assert rows == [(country,)]


@pytest.fixture(params=["missing", "folder", "text", "cut", "of networks"])
def useless(request, tmp_path):
    """A file that tells no countries, and what is said of it."""
    path = tmp_path / "a.mmdb"
    if request.param == "folder":
        path.mkdir()
    if request.param == "text":
        path.write_text("no database")
    if request.param == "cut":
        path.write_bytes(write(tmp_path / "whole.mmdb").read_bytes()[:-40])
    if request.param == "of networks":
        write(path, "GeoLite2-ASN", {"203.0.113.0/24": {"autonomous_system_number": 1}})
    told = {"missing": "No such file", "of networks": "GeoLite2-ASN"}
    return path, told.get(request.param, "MaxMind's format")


def test_a_file_that_is_of_no_use_is_refused(useless):
    path, told = useless
    with pytest.raises(GeoipUnreadable, match=told) as refused:
        Countries(path)
    assert str(path) in str(refused.value)


def test_the_service_does_not_start_with_such_a_file_and_says_why(tmp_path):
    command = [sys.executable, "-m", "penstock.cli.main", "serve", "--port", "0", "--data", str(tmp_path / "data")]
    environment = {**os.environ, "PENSTOCK_GEOIP": str(tmp_path / "none.mmdb")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    told = f"penstock: PENSTOCK_GEOIP: cannot read {tmp_path / 'none.mmdb'}: No such file or directory"
    assert ended.stderr.strip().splitlines()[-1] == told


def test_the_setting_is_a_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_GEOIP", str(tmp_path / "a.mmdb"))
    assert Settings().geoip == tmp_path / "a.mmdb"
