"""Texts of landing pages in each language, and the choice of a language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from penstock.base.patterns import Pattern

_RANGE = Pattern(
    r"\s*([A-Za-z]{2,3})(?:-[A-Za-z0-9-]*)?\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?"
)
_MAX_HEADER_CHARS = 500


@dataclass(frozen=True, slots=True)
class PageTexts:
    """Texts of a landing page.

    open_app, get_app, web: buttons. hint: shown above the buttons on a phone. scan: shown above the
    QR code on a computer. missing, missing_hint: heading and text of the 404 page. copies: shown
    below the buttons when get_app copies the link.
    """

    open_app: str
    get_app: str
    web: str
    hint: str
    scan: str
    missing: str
    missing_hint: str
    copies: str


TEXTS: Mapping[str, PageTexts] = {
    "en": PageTexts(
        "Open the app",
        "Get the app",
        "Continue on the web",
        "This link opens in the app.",
        "This link opens in the app. Scan the code with your phone.",
        "Link not found",
        "The address may be mistyped, or the link is no longer in use.",
        "“Get the app” also copies this link, so that the app can open it.",
    ),
    "de": PageTexts(
        "App öffnen",
        "App laden",
        "Im Web fortfahren",
        "Dieser Link öffnet sich in der App.",
        "Dieser Link öffnet sich in der App. Scannen Sie den Code mit Ihrem Telefon.",
        "Link nicht gefunden",
        "Die Adresse ist falsch geschrieben, oder der Link wird nicht mehr verwendet.",
        "„App laden“ kopiert auch diesen Link, damit die App ihn öffnen kann.",
    ),
    "fr": PageTexts(
        "Ouvrir l’application",
        "Télécharger l’application",
        "Continuer sur le web",
        "Ce lien s’ouvre dans l’application.",
        "Ce lien s’ouvre dans l’application. Scannez le code avec votre téléphone.",
        "Lien introuvable",
        "L’adresse est peut-être mal saisie, ou le lien n’est plus utilisé.",
        "« Télécharger l’application » copie aussi ce lien : l’application pourra l’ouvrir.",
    ),
    "es": PageTexts(
        "Abrir la aplicación",
        "Descargar la aplicación",
        "Continuar en la web",
        "Este enlace se abre en la aplicación.",
        "Este enlace se abre en la aplicación. Escanee el código con su teléfono.",
        "Enlace no encontrado",
        "Puede que la dirección esté mal escrita o que el enlace ya no se use.",
        "«Descargar la aplicación» también copia este enlace: la aplicación podrá abrirlo.",
    ),
    "pt": PageTexts(
        "Abrir o aplicativo",
        "Baixar o aplicativo",
        "Continuar na web",
        "Este link abre no aplicativo.",
        "Este link abre no aplicativo. Escaneie o código com o seu celular.",
        "Link não encontrado",
        "O endereço pode estar errado, ou o link não é mais usado.",
        "“Baixar o aplicativo” também copia este link, para que o aplicativo possa abri-lo.",
    ),
    "ja": PageTexts(
        "アプリを開く",
        "アプリを入手",
        "ウェブで続ける",
        "このリンクはアプリで開きます。",
        "このリンクはアプリで開きます。スマートフォンでコードを読み取ってください。",
        "リンクが見つかりません",
        "アドレスが間違っているか、このリンクは現在使われていません。",
        "「アプリを入手」を押すと、アプリで開けるようにこのリンクもコピーされます。",
    ),
}


def accepted_languages(accept_language: str) -> tuple[str, ...]:
    """Return the language codes in an `Accept-Language` header, without regions, most preferred
    first.

    Skips invalid parts, and everything after 500 characters. Source: RFC 9110, 12.5.4.
    """
    return _languages(accept_language[:_MAX_HEADER_CHARS])


@lru_cache(maxsize=1_000)
def _languages(accept_language: str) -> tuple[str, ...]:
    weighted: list[tuple[float, int, str]] = []
    for part in accept_language.split(","):
        if (match := _RANGE.fullmatch(part)) and (weight := float(match[2] or 1)) > 0:
            weighted.append((-weight, len(weighted), match[1].lower()))
    return tuple(language for _, _, language in sorted(weighted))


def page_language(languages: Sequence[str]) -> str:
    """Return the first of these languages that landing pages support, or English if they support
    none.
    """
    return next((language for language in languages if language in TEXTS), "en")
