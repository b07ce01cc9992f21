"""Every example of the API reference is a real response. `make examples` records them again."""

import json
import os

import pytest
from docsite.reference import EXAMPLES, document, reference_pages

from penstock.app import Services
from penstock.settings import Settings
from tests.conftest import ShiftedClock
from tests.docsite.recorder import Recorder, with_placeholders
from tests.docsite.reference_examples import record_examples
from tests.mail_server import MailServer
from tests.tenant import Tenant


@pytest.fixture
def settings(settings: Settings, mails: MailServer) -> Settings:
    return settings.model_copy(update=mails.settings())


@pytest.mark.slow("calls every route")
def test_the_examples_of_the_reference_are_real(
    workspace: Tenant, services: Services, clock: ShiftedClock, mails: MailServer
) -> None:
    examples = record_examples(Recorder(workspace, services, clock, mails))
    text = with_placeholders(json.dumps(examples, indent=2, ensure_ascii=False)) + "\n"
    if os.environ.get("PENSTOCK_RECORD_EXAMPLES"):
        EXAMPLES.write_text(text, "utf-8")
    assert EXAMPLES.read_text("utf-8") == text


def test_every_operation_of_the_reference_has_an_example() -> None:
    operations = {
        f"{method.upper()} {path}"
        for path, methods in document()["paths"].items()
        for method in methods
    }
    shown = {example["operation"] for example in json.loads(EXAMPLES.read_text("utf-8"))}
    assert sorted(operations - shown) == [], (
        "call them in reference_examples.py, then run: make examples"
    )
    assert shown <= operations
    pages = "".join(reference_pages().values())
    assert pages.count("Example:\n") == len(shown)
