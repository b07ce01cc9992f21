"""The pictures of docs/counting.md show what the engine decides. `make pictures` draws them."""

import os
import re

import pytest
from docsite.pages import ROOT

from tests.conftest import ShiftedClock
from tests.docsite.counting_pictures import ATTEMPTS, attempts_picture, visitor_picture
from tests.funnels.scenario import Scene
from tests.tenant import Tenant

PAGE = ROOT / "docs/counting.md"


@pytest.fixture
def past(workspace: Tenant, clock: ShiftedClock) -> Scene:
    return Scene(workspace, clock)


@pytest.fixture
def recent(workspace: Tenant, clock: ShiftedClock) -> Scene:
    return Scene(workspace, clock, ago_s=60)


def expect_current(name: str, picture: str) -> None:
    file = ROOT / f"docs/images/counting-{name}.svg"
    if os.environ.get("PENSTOCK_DRAW_PICTURES"):
        file.write_text(picture, "utf-8")
    assert file.read_text("utf-8") == picture


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("name", ATTEMPTS)
def test_the_picture_of_attempts_is_what_the_engine_decides(
    past: Scene, recent: Scene, name: str
) -> None:
    expect_current(name, attempts_picture(past, recent, ATTEMPTS[name]))


@pytest.mark.usefixtures("warehouse")
def test_the_picture_of_a_visitor_is_what_the_engine_decides(past: Scene) -> None:
    expect_current("visitor", visitor_picture(past))


def test_the_page_shows_every_picture() -> None:
    shown = re.findall(r"\(images/counting-(\w+)\.svg\)", PAGE.read_text("utf-8"))
    assert sorted(shown) == sorted([*ATTEMPTS, "visitor"])
