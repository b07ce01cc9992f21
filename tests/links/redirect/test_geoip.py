"""The country of a click, from the operator's GeoIP file."""

import pytest
from litestar.testing import TestClient
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from penstock.app import build_services
from penstock.links.redirect.geoip import CountryLookup, GeoipFileError
from penstock.settings import Settings
from tests import user_agents
from tests.applications import application
from tests.cases import cases
from tests.serving import penstock
from tests.tenant import connecting_from
from tests.waiting import eventually


def write_geoip_file(path, kind="Test-Country", networks=None):
    writer = MMDBWriter(6, kind, ipv4_compatible=True, description="made for a test")
    for network, record in (
        networks or {"203.0.113.0/24": {"country": {"iso_code": "DE"}}}
    ).items():
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
        ("203.0.113.7", "DE"), ("2001:db8::1", "JP"), ("::ffff:203.0.113.7", "DE"),
        ("198.51.100.1", ""), ("192.0.2.1", ""),
        ("127.0.0.1", ""), ("testclient", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_country_of_an_address_or_none(tmp_path, kind, address, country):
    assert (
        CountryLookup(write_geoip_file(tmp_path / "a.mmdb", kind, NETWORKS)).country(address)
        == country
    )


def test_without_a_file_every_country_is_unknown():
    assert CountryLookup(None).country("203.0.113.7") == ""


def test_a_click_has_the_country_of_its_address_but_not_the_address(
    settings, clock, warehouse, make_link, tmp_path
):
    link = make_link(fallbackUrl="https://www.example.com/")
    with_file = settings.model_copy(update={"geoip": write_geoip_file(tmp_path / "a.mmdb")})
    app = application(build_services(with_file, clock, warehouse))
    with TestClient(connecting_from("203.0.113.7", app)) as browser:
        answer = browser.get(
            f"/l/{link['slug']}",
            headers={"User-Agent": user_agents.DESKTOP["edge"]},
            follow_redirects=False,
        )
        assert answer.status_code == 302
        query = "SELECT * FROM clicks WHERE link_id = {link:String}"
        eventually(lambda: warehouse.query(query, {"link": link["id"]})[1])
    names, [row] = warehouse.query(query, {"link": link["id"]})
    assert dict(zip(names, row, strict=True))["country"] == "DE"
    assert "203.0.113.7" not in str(row)


@cases(
    ("proxy", "trusted", "country"),
    [
        ("127.0.0.1", None, "DE"), ("::1", None, "DE"), ("10.1.2.3", None, ""),
        ("10.1.2.3", "192.168.0.1, 10.1.0.0/16", "DE"), ("10.2.2.3", "10.1.0.0/16", ""),
        ("10.1.2.3", "*", "DE"), ("127.0.0.1", "", ""),
    ],
)  # fmt: skip
def test_only_trusted_proxies_can_set_the_address(
    settings, clock, warehouse, make_link, tmp_path, proxy, trusted, country
):
    link = make_link(fallbackUrl="https://www.example.com/")
    changes = {"geoip": write_geoip_file(tmp_path / "a.mmdb")} | (
        {} if trusted is None else {"trusted_proxies": trusted}
    )
    app = application(build_services(settings.model_copy(update=changes), clock, warehouse))
    headers = {"User-Agent": user_agents.DESKTOP["edge"], "X-Forwarded-For": "203.0.113.7"}
    with TestClient(connecting_from(proxy, app)) as browser:
        answer = browser.get(f"/l/{link['slug']}", headers=headers, follow_redirects=False)
        assert answer.status_code == 302
        query = "SELECT country FROM clicks WHERE link_id = {link:String}"
        rows = eventually(lambda: warehouse.query(query, {"link": link["id"]})[1])
    assert rows == [(country,)]


@pytest.fixture(params=["missing", "folder", "text", "cut", "of networks"])
def unusable_file(request, tmp_path):
    """A file without usable countries, and the error message about it."""
    path = tmp_path / "a.mmdb"
    if request.param == "folder":
        path.mkdir()
    if request.param == "text":
        path.write_text("no database")
    if request.param == "cut":
        path.write_bytes(write_geoip_file(tmp_path / "whole.mmdb").read_bytes()[:-40])
    if request.param == "of networks":
        write_geoip_file(path, "GeoLite2-ASN", {"203.0.113.0/24": {"autonomous_system_number": 1}})
    message = {"missing": "No such file", "of networks": "GeoLite2-ASN"}
    return path, message.get(request.param, "MaxMind's format")


def test_an_unusable_file_is_an_error(unusable_file):
    path, message = unusable_file
    with pytest.raises(GeoipFileError, match=message) as error:
        CountryLookup(path)
    assert str(path) in str(error.value)


@pytest.mark.usefixtures("starts_service")
def test_the_service_does_not_start_with_an_unusable_file(tmp_path):
    process = penstock(
        *("serve", "--port", "0", "--data", str(tmp_path / "data")),
        PENSTOCK_GEOIP=str(tmp_path / "none.mmdb"),
    )
    assert process.returncode == 2
    message = (
        f"penstock: PENSTOCK_GEOIP: cannot read {tmp_path / 'none.mmdb'}: No such file or directory"
    )
    assert process.stderr.strip().splitlines()[-1] == message


def test_the_setting_is_a_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_GEOIP", str(tmp_path / "a.mmdb"))
    assert Settings().geoip == tmp_path / "a.mmdb"
