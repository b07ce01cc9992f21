"""Every example of the API reference is a real response. `make examples` records them again."""

import json
import os

from docsite.reference import EXAMPLES, document, reference_pages

from tests.docsite.reference_examples import recorded_examples, with_placeholders
from tests.tenant import Tenant


def test_the_examples_of_the_reference_are_real(workspace: Tenant) -> None:
    examples = recorded_examples(workspace)
    text = with_placeholders(json.dumps(examples, indent=2, ensure_ascii=False)) + "\n"
    if os.environ.get("PENSTOCK_RECORD_EXAMPLES"):
        EXAMPLES.write_text(text, "utf-8")
    assert EXAMPLES.read_text("utf-8") == text


def test_every_area_of_the_reference_has_an_example_and_every_example_has_an_operation() -> None:
    operations = {
        f"{method.upper()} {path}": operation["tags"][0]
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
    shown = {example["operation"] for example in json.loads(EXAMPLES.read_text("utf-8"))}
    assert shown <= set(operations)
    assert {operations[name] for name in shown} == set(operations.values())
    pages = "".join(reference_pages().values())
    assert pages.count("Example:\n") == len(shown)
