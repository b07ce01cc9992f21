"""Emails with a page beside the text: the same content, and nothing that strangers can link."""

import pytest

from penstock.accounts.mail.composition import compose_mail
from penstock.accounts.mail.model import Mail, MailSection
from penstock.accounts.mail.names import plain_sentence
from penstock.app import Services
from penstock.settings import Settings
from tests.mail_server import MailServer

LINK = "https://penstock.example/funnels/fun_1?start=2026-11-16&end=2026-11-22"
SECTION = MailSection("Checkout", ("61.3% completed.", "5 were lost."), "16 Nov", LINK, "Open")


@pytest.fixture
def settings(settings: Settings, mails: MailServer) -> Settings:
    return settings.model_copy(update=mails.settings())


def composed(section: MailSection = SECTION, unsubscribe_url: str | None = None) -> Mail:
    return compose_mail(
        "ann@example.com",
        "Your week",
        [section],
        footer=["You asked for it."],
        unsubscribe_url=unsubscribe_url,
    )


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("61.3% of 1,204 attempts completed.", "61.3% of 1,204 attempts completed."),
        ("From step 2 to step 3: 500 at 10:30.", "From step 2 to step 3: 500 at 10:30."),
        ('"Sign-up" lost 5, mostly with path = /a/b', '"Sign-up" lost 5, mostly with path = /a/b'),
        ("plan = https://evil.example/x", "plan = https: //evil example/x"),
        ("mailto:x@evil.example", "mailto: x evil example"),
        ("evil\uff0eexample evil\u3002example 10.0.0.1", "evil example evil example 10 0 0 1"),
        ("evil\u200b.\u200bexample\r\nBcc: b", "evil example Bcc: b"),
    ],
)
def test_a_sentence_has_nothing_that_a_mail_client_links(sentence: str, shown: str) -> None:
    assert plain_sentence(sentence) == shown


def test_text_and_page_have_the_same_content_and_escape_markup() -> None:
    mail = composed(MailSection("<b>Checkout</b>", ("a & b",), link=LINK, link_text="Open"))
    assert mail.html is not None
    assert "<b>" not in mail.html
    assert "&lt;b&gt;Checkout&lt;/b&gt;" in mail.html
    assert "a &amp; b" in mail.html
    assert mail.html.count("http") == 1
    assert mail.text == (f"<b>Checkout</b>\n\na & b\n\nOpen: {LINK}\n\n--\nYou asked for it.\n")


def test_a_mail_with_a_page_offers_both_and_one_click(
    services: Services, server: object, mails: MailServer
) -> None:
    url = "https://penstock.example/digests/unsubscribe?token=" + "t" * 200
    assert services.mailer.post(lambda: composed(unsubscribe_url=url))
    mail = mails.mail()
    assert mail.get_content_type() == "multipart/alternative"
    kinds = [part.get_content_type() for part in mail.iter_parts()]
    assert kinds == ["text/plain", "text/html"]
    assert mail["List-Unsubscribe"] == f"<{url}>"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert f"Unsubscribe: {url}" in mails.text()


def test_a_line_may_begin_with_the_word_from(
    services: Services, server: object, mails: MailServer
) -> None:
    section = MailSection("From home to purchase", ("From here to there.", "Überall."))
    assert services.mailer.post(lambda: composed(section))
    assert mails.text().startswith("From home to purchase\n\nFrom here to there.\nÜberall.\n")


def test_a_mail_without_https_does_not_promise_one_click(
    services: Services, server: object, mails: MailServer
) -> None:
    assert services.mailer.post(lambda: composed(unsubscribe_url="http://localhost/u"))
    assert mails.mail()["List-Unsubscribe-Post"] is None
