"""Pages show the names of rows wherever they show steps."""

import pytest

from tests.cases import cases, questions_about_one_scene
from tests.funnels.scenario import step
from tests.web.reading import text_of

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def path(scene):
    scene.story("0/A 5/failed 10/B 20/D", attempt="won")
    scene.story("0/A 5/failed", attempt="lost")
    rows = (
        step("A", name="Cart"),
        step("failed", diagnostic=True, name="Card declined"),
        step("B", "C"),
        step("D", name="Paid & done"),
    )
    return f"/funnels/{scene.attempts(*rows)}"


@cases(
    ("show", "shown"),
    [
        ("next&step=1", "Step 1: Cart Step 2: B or C"),
        pytest.param(
            "drivers&step=1",
            "Step 1: Cart Step 2: B or C",
            marks=pytest.mark.full("another part"),
        ),
        ("times", "Step 1 to 3: Cart to Paid &amp; done"),
    ],
)
def test_details(workspace, path, show, shown):
    assert shown in text_of(workspace, f"{path}?period=all&show={show}", "detail")


def bars_and_their_table(workspace, path):
    text = text_of(workspace, f"{path}?period=all", "overview")
    for shown in ("1 Cart", "2 B or C", "3 Paid &amp; done", "Card declined , between steps"):
        assert shown in text
    assert text.count("Paid &amp; done") == 2


def lists_and_traces_of_units(workspace, path):
    units = f"{path}/units"
    listed = text_of(workspace, f"{units}?period=all&step=1&outcome=droppedOff")
    assert "step 1, Cart" in listed
    assert "Card declined" in text_of(workspace, f"{units}?period=all&diagnostic=1")
    assert "step 1 of 3, Cart" in text_of(workspace, f"{units}/lost?period=all", "timeline")


test_other_pages_show_the_names = questions_about_one_scene(
    bars_and_their_table,
    lists_and_traces_of_units,
)


@pytest.mark.usefixtures("warehouse")
def test_in_any_order_a_step_is_a_number_of_rows_that_were_done(workspace, scene):
    scene.story("0/C 60/A", visitor="ann")
    scene.story("0/B", visitor="bob")
    funnel = scene.funnel("A", "B", "C", order="any")
    text = text_of(workspace, f"/funnels/{funnel}?period=all&breakdown=", "overview")
    assert "1 1 of 3 done 2" in text
    assert "2 2 of 3 done 1" in text
    assert "Of all 2 visitors, in any order: A by 1 , B by 1 , C by 1 ." in text
