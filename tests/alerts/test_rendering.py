"""Messages in each channel: one body for Slack and Discord, a webhook and an email."""

import html
import json
from dataclasses import replace
from typing import Any

import pytest
from docsite.pages import ROOT
from jsonschema import Draft202012Validator

from penstock.alerts.model import Message
from penstock.alerts.rendering import as_chat, as_mail, as_webhook

LINK = "https://penstock.example/funnels/fun_1?start=2026-11-16&end=2026-11-22"
FIGURES = {"rate": 0.613, "settled": 1204}
DISCORD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "content": {"type": ["string", "null"], "maxLength": 2000},
        "allowed_mentions": {
            "type": "object",
            "properties": {
                "parse": {"type": "array", "items": {"enum": ["users", "roles", "everyone"]}},
            },
        },
    },
    "required": ["content"],
}
"""What Discord accepts for `execute_webhook`, as far as the body uses it. Source:
github.com/discord/discord-api-spec, `IncomingWebhookRequestPartial`, read in November 2026.
"""
DISCORD_SLACK: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": ["string", "null"], "maxLength": 2000}},
    "required": ["text"],
}
"""The same for `execute_slack_compatible_webhook`: `SlackWebhook`."""
SLACK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 40_000},
        "mrkdwn": {"type": "boolean"},
        "unfurl_links": {"type": "boolean"},
    },
    "required": ["text"],
}
"""What Slack accepts. Source: github.com/slackapi/slack-api-specs, `chat.postMessage`, and
docs.slack.dev, "Sending messages using incoming webhooks", read in November 2026.
"""


def message(*lines: str, subject: str = "Checkout fell below 60%", link: str = LINK) -> Message:
    return Message(subject, lines or ("58.1% of 620 settled attempts completed.",), link, FIGURES)


def chat(sent: Message) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(as_chat(sent))
    for schema in (SLACK, DISCORD, DISCORD_SLACK):
        Draft202012Validator(schema).validate(body)
    return body


def test_slack_and_discord_show_the_sentences_and_the_link() -> None:
    body = chat(message("Mostly with plan = a&b."))
    assert body["text"].split("\n") == [
        "Checkout fell below 60%",
        "Mostly with plan = a&amp;b.",
        LINK.replace("&", "&amp;"),
    ]
    assert body["content"].split("\n") == [
        "Checkout fell below 60%",
        "Mostly with plan = a&b.",
        f"<{LINK}>",
    ]
    assert body["allowed_mentions"] == {"parse": []}


@pytest.mark.parametrize(
    "name",
    [
        "<!everyone>",
        "<@U123>",
        "@everyone",
        "@here",
        "<https://evil.example|Log in>",
        "[Log in](https://evil.example)",
        "https://evil.example",
        "www.evil.example",
        "@\u200beveryone",
        "\uff20everyone",
    ],
)
def test_a_name_mentions_nobody_and_links_nowhere(name: str) -> None:
    body = chat(message(f"Mostly with plan = {name}."))
    for text in (body["text"], body["content"]):
        line = text.split("\n")[1]
        assert "@" not in line
        assert "evil.example" not in line
        assert "://" not in line
    assert "<" not in body["text"]
    assert "<" not in body["content"].split("\n")[1].replace("\\<", "")


def test_markup_of_names_is_shown_as_it_is() -> None:
    name = "checkout_started *a* `b` ~~c~~ ||d|| # e > f"
    body = chat(message(f"Lost at {name}"))
    line = body["content"].split("\n")[1]
    assert "\\_" in line
    for character in "*`~|#>_":
        assert line.count(character) == line.count(f"\\{character}")
    assert html.unescape(body["text"].split("\n")[1]) == f"Lost at {name}"
    assert body["mrkdwn"] is False


@pytest.mark.parametrize("character", ["a", "&", "*", "𝔸", "日"])
def test_a_long_message_keeps_its_link_within_the_limit(character: str) -> None:
    body = chat(message(*[character * 390 for _ in range(40)]))
    for text in (body["text"], body["content"]):
        assert len(text.encode("utf-16-le")) <= 4000
        assert LINK in html.unescape(text)
        assert text.startswith("Checkout fell")


def test_a_webhook_has_sentences_figures_and_the_corrected_message() -> None:
    sent = Message("Checkout", ("58.1% completed.",), LINK, FIGURES, corrects="msg_1")
    assert json.loads(as_webhook(sent)) == {
        "type": "alert",
        "subject": "Checkout",
        "lines": ["58.1% completed."],
        "link": LINK,
        "figures": FIGURES,
        "corrects": "msg_1",
    }


def test_a_mail_has_the_sentences_and_the_link_in_both_forms() -> None:
    mail = as_mail(message(), "ann@example.com")
    assert mail.to == "ann@example.com"
    assert mail.subject == "Checkout fell below 60%"
    assert mail.html is not None
    for form in (mail.text, html.unescape(mail.html)):
        assert "58.1% of 620 settled attempts completed." in form
        assert LINK in form
        assert "Open the report" in form


def test_the_email_of_an_alert_on_events_links_to_no_report() -> None:
    silent = replace(message(), figures={"condition": "silence"})
    assert "Open the dashboard" in as_mail(silent, "ann@example.com").text


def test_the_documented_chat_message_is_the_one_that_is_sent() -> None:
    page = (ROOT / "docs/alerts.md").read_text("utf-8")
    block = page.partition('"text":')[2].partition("```")[0]
    documented = json.loads('{"text":' + block)
    line = "58.1% of the 620 attempts completed Checkout."
    link = "https://penstock.example.com/..."
    assert chat(message(line, subject="Checkout: below 60%", link=link)) == documented
