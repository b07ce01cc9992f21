"""The documentation shows the statement that the code generates."""

import re

from penstock.warehouse.client import Warehouse
from tests.funnels.statement_page import PAGE, page


def test_the_statement_in_the_documentation_is_current(warehouse: Warehouse) -> None:
    regenerate = "Regenerate it with: python -m tests.funnels.statement_page"
    assert PAGE.read_text("utf-8") == page(warehouse), regenerate


def test_every_relation_of_the_statement_is_explained() -> None:
    guide = PAGE.with_suffix(".md").read_text("utf-8")
    relations = re.findall(r"^    (\w+) AS( MATERIALIZED)?$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(relations) >= 10
    assert [name for name, _ in relations if f"| `{name}` |" not in guide] == []
