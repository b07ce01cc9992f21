"""The vectors of deferred links that every client runs: the server reads the same tokens."""

import json
from pathlib import Path

import pytest

from penstock.links.attribution.evidence import parse_opened_url, referrer_token
from penstock.links.attribution.schema import ResolvedRecord
from tests.cases import cases
from tests.links.attribution.conftest import Phone

VECTORS = json.loads(
    (Path(__file__).parents[3] / "sdk" / "vectors" / "deferred-links.json").read_text("utf-8")
)
LINK_URLS = [f"https://{host}" for host in VECTORS["linkHosts"]]


def by_name(kind):
    return [pytest.param(vector, id=vector["name"]) for vector in VECTORS[kind]]


@pytest.mark.parametrize("vector", by_name("referrers"))
def test_the_token_of_an_install_referrer_is_the_clients(vector):
    assert (referrer_token(vector["referrer"]) or None) == vector["token"]


@pytest.mark.parametrize("vector", by_name("clipboards"))
def test_the_token_of_a_copied_link_is_the_clients(vector):
    if vector["token"] is None:
        return  # the server also reads URLs of an app's own scheme, which nobody copies
    evidence = parse_opened_url(vector["text"].strip(), LINK_URLS)
    assert (evidence.token, bool(evidence.slug)) == (vector["token"], True)


@cases("vector", by_name("bodies"))
def test_what_clients_send_is_accepted(server, app_id, vector):
    platform = vector["app"]["platform"]
    answer = Phone(server, app_id, platform).open(**vector["body"] | {"websiteId": app_id})
    assert answer["matched"] is False


def test_what_clients_send_is_matched(server, app_id, make_link):
    record, phone = make_link(), Phone(server, app_id, "android")
    for number, vector in enumerate(VECTORS["bodies"]):
        sent = {**vector["body"], "websiteId": app_id, "installId": f"i-{number}"}
        evidence = set(sent) & {"installReferrer", "clickToken", "url"}
        if not evidence:
            continue
        token = phone.tap(record)
        values = {"installReferrer": f"ct={token}", "clickToken": token, "url": record["hostedUrl"]}
        [name] = evidence
        assert phone.open(**sent | {name: values[name]})["matched"] is True, vector["name"]


@pytest.mark.parametrize("vector", by_name("answers"))
def test_an_answer_that_settles_an_open_has_the_fields_of_the_api(vector):
    if vector["action"] == "finish":
        names = {info.alias for info in ResolvedRecord.model_fields.values()}
        assert set(vector["body"]) == names
        ResolvedRecord.model_validate(vector["body"], by_alias=True)
