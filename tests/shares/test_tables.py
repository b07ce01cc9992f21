"""The plain tables of a report, for mails."""

import pytest

from penstock.funnels.results.schema import ReportQuery
from penstock.shares.report import read_report
from penstock.shares.tables import html_table, text_table

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def report(workspace, services, scene):
    """A report that is compared with the seven days before, when there were no events."""
    funnel_id = scene.funnel("A", "B", name="A < B", conversionWindowSeconds=3600)
    return read_report(
        services.funnel_queries,
        workspace.id,
        services.funnels.get(workspace.id, funnel_id),
        ReportQuery.model_validate({"period": "7d"}),
        (),
    )


def test_the_text_table_has_columns_of_one_width(report):
    caption, _, *lines = text_table(report).splitlines()
    assert caption.startswith("A < B, ")
    assert caption.endswith(": 40.0% of 80 settled visitors completed.")
    assert lines == [
        "Step  Settled visitors  Of settled",
        "1 A                 80      100.0%",
        "2 B                 32       40.0%",
    ]


def test_the_html_table_needs_no_stylesheet(report):
    table = html_table(report)
    assert "<caption" in table
    assert "A &lt; B" in table
    assert table.count("<tr>") == 3
    assert 'style="' in table
    assert "class=" not in table
