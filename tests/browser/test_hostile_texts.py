"""Stored text stays text on every page: it runs nothing, reverses nothing, and fits a phone."""

import pytest

from tests import user_agents
from tests.browser.conftest import CONTEXT, patient
from tests.browser.hostile import TEXTS, Workspace
from tests.browser.pages import PAGES
from tests.browser.test_every_page import opened
from tests.browser.watching import assert_fits, assert_fits_at
from tests.serving import Served

pytestmark = pytest.mark.full("each text on each page")

SHOWS_NOTHING_STORED = {
    "login",
    "reset-password",
    "new-password",
    "signup",
    "confirm-email",
    "unsubscribe",
    "welcome",
    "funnel-new",
    "goal-new",
    "segment-new",
    "links-upload",
    "deletions",
    "settings-website-new",
    "settings-account",
    "visitors-none",
}
"""Pages whose content is the same for all."""

VISIBLE_TEXT = """() => {
    const main = document.querySelector("main");
    const typed = [...main.querySelectorAll("input, textarea")].map((field) => field.value);
    return [main.textContent, ...typed].join("\\n");
}"""

REVERSED_TEXTS = """(text) => {
    const isolates = (element) => {
        const style = getComputedStyle(element);
        const isBlock = !/^inline$|contents/.test(style.display);
        return isBlock || /isolate|plaintext/.test(style.unicodeBidi);
    };
    const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), wrong = [];
    for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
        const at = node.data.lastIndexOf(text);
        const sentences = "script, pre, option, .names, .revisions, .summary"; // join names
        if (at < 0 || node.parentElement.closest(sentences)) continue;
        let holder = node.parentElement;
        while (!isolates(holder)) holder = holder.parentElement;
        const after = document.createRange();
        after.setStart(node, at + text.length);
        after.setEndAfter(holder.lastChild);
        if (!/^[\\]}"]*$/.test(after.toString().trim())) wrong.push(holder.outerHTML.slice(0, 300));
    }
    return wrong;
}"""
"""Elements with other text after the hostile text, which it could reverse.

Not checked: code, and texts that are one sentence, such as an option, a revision's changes or the
summary of a comparison."""


@pytest.fixture(scope="module")
def workspaces(starts_service, tmp_path_factory):
    """A workspace for each text. Its owner also belongs to the one before: pages offer both."""
    with Served(
        tmp_path_factory.mktemp("hostile") / "data", PENSTOCK_SIGNUP_OPEN="true"
    ) as service:
        created = [Workspace(service, kind) for kind in TEXTS]
        for workspace, host in zip(created, [created[-1], *created[:-1]], strict=True):
            workspace.join(host)
        yield created


@pytest.fixture(scope="module")
def page(browser, workspaces):
    """One for all: to start a process of the browser costs as much as to load a page."""
    with browser.new_context(base_url=workspaces[0].url, **CONTEXT) as context:
        yield patient(context).new_page()


def one_line(text):
    return " ".join(text.split())


@pytest.mark.parametrize("shown", PAGES, ids=lambda shown: shown.name)
def test_stored_texts_are_text_on_every_page(page, watch, workspaces, shown):
    for workspace in workspaces:
        page.context.clear_cookies()
        opened(page, workspace, shown)
        if shown.name not in SHOWS_NOTHING_STORED:
            assert one_line(workspace.text) in one_line(page.evaluate(VISIBLE_TEXT))
        assert page.title() != "run"
        assert page.evaluate(REVERSED_TEXTS, workspace.text) == []
        assert_fits_at(page, 1440, 360)


@pytest.mark.parametrize(
    "user_agent", [user_agents.IOS["safari"], user_agents.ANDROID["chrome"]], ids=["ios", "android"]
)
def test_stored_texts_are_text_on_landing_pages(browser, workspaces, user_agent):
    with patient(
        browser.new_context(user_agent=user_agent, viewport={"width": 360, "height": 740})
    ) as device:
        for workspace in workspaces:
            page = device.new_page()
            messages = []
            page.on("console", lambda message, messages=messages: messages.append(message.text))
            page.goto(workspace.hosted_url)
            assert one_line(page.get_by_role("heading", level=1).inner_text()) == one_line(
                workspace.text
            )
            assert page.title() != "run"
            assert page.evaluate(REVERSED_TEXTS, workspace.text) == []
            assert_fits(page)
            assert messages == []
