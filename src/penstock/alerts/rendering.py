"""Renders messages for the channels: email, webhook and chat."""

from collections.abc import Callable

import msgspec

from penstock.accounts.mail.composition import compose_mail
from penstock.accounts.mail.model import Mail, MailSection
from penstock.accounts.mail.names import plain_sentence
from penstock.alerts.model import ConditionKind, Message

_MAX_CHAT_UNITS = 2000
"""Maximum length of a text in Discord, in UTF-16 code units. Slack accepts longer ones."""
_SLACK_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_DISCORD_MARKUP = str.maketrans({character: f"\\{character}" for character in r"\*_~`|<>#-[]()"})


def as_mail(message: Message, to: str) -> Mail:
    """Return the message as an email with a text and a page."""
    is_rate = message.figures.get("condition", ConditionKind.RATE) == ConditionKind.RATE
    link_text = "Open the report" if is_rate else "Open the dashboard"
    section = MailSection(
        message.subject,
        message.lines,
        link=message.link,
        link_text=link_text,
        receipt=message.receipt,
    )
    footer = ["An alert of a Penstock workspace sends its messages to this address."]
    return compose_mail(to, message.subject, [section], footer=footer)


def as_webhook(message: Message) -> bytes:
    """Return the message as the JSON body of a webhook."""
    return msgspec.json.encode(
        {
            "type": "alert",
            "subject": message.subject,
            "lines": message.lines,
            "link": message.link,
            "figures": message.figures,
            "corrects": message.corrects,
        }
    )


def as_chat(message: Message) -> bytes:
    """Return the message as one JSON body for the incoming webhooks of Slack and of Discord.

    Slack shows `text`, Discord `content`, and each ignores the fields of the other. Discord's
    addresses that end in `/slack` show `text`. Names cannot format the text, add links or mention
    people. If the message is too long, its last sentences are left out, but never the link.
    """
    slack = _chat_text(
        message,
        lambda text: text.translate(_SLACK_ENTITIES),
        lambda link: link.replace("&", "&amp;"),
    )
    discord = _chat_text(
        message, lambda text: text.translate(_DISCORD_MARKUP), lambda link: f"<{link}>"
    )
    return msgspec.json.encode(
        {
            "text": slack,
            "mrkdwn": False,
            "unfurl_links": False,
            "content": discord,
            "allowed_mentions": {"parse": []},
        }
    )


def _chat_text(
    message: Message, escape: Callable[[str], str], as_link: Callable[[str], str]
) -> str:
    """Return the lines that fit, and the links. escape: neutralises the program's markup."""
    links = as_link(message.link)
    if message.receipt is not None:
        links += f"\nReceipt: {as_link(message.receipt)}"
    shown, room = [], _MAX_CHAT_UNITS - _utf16_units(links)
    for line in (message.subject, *message.lines):
        text = escape(plain_sentence(line))
        room -= _utf16_units(text) + 1
        if room < 0:
            break
        shown.append(text)
    return "\n".join([*shown, links])


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
