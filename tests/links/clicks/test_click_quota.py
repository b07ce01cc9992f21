"""How many clicks a link and an app store in a minute."""

import pytest

from penstock.settings import Settings
from tests import user_agents
from tests.links.conftest import LINKS
from tests.waiting import eventually

EDGE = user_agents.DESKTOP["edge"]
WEB = "https://www.example.com/offers"
QUOTA = 2


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"clicks_per_minute": QUOTA})


@pytest.mark.usefixtures("warehouse")
def test_clicks_over_the_quota_of_a_link_or_an_app_are_counted_and_not_stored(
    services, client, make_link, open_link, clicks
):
    """An app has five times the quota of a link; people are led on all the same."""
    links = [make_link(fallbackUrl=WEB) for _ in range(6)]
    for link in links:
        for _ in range(QUOTA + 1):
            assert open_link(link["slug"], EDGE).headers["location"] == WEB
    services.click_quota.worker.wake()

    def unstored():
        return [client.get(f"{LINKS}/{link['id']}").json()["unstoredClicks"] for link in links]

    eventually(lambda: unstored() == [1, 1, 1, 1, 1, 3])
    for link, stored in zip(links, [2, 2, 2, 2, 2, 0], strict=True):
        clicks(link, stored)
