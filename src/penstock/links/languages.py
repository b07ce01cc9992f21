"""What landing pages say, in the languages they speak."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

_RANGE = re.compile(r"\s*([A-Za-z]{2,3})(?:-[A-Za-z0-9-]*)?\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?")
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Texts:
    """open_app, get_app, web: buttons. hint: above them on a phone; scan: on a computer, above a QR code. missing*: the page of no link."""

    open_app: str
    get_app: str
    web: str
    hint: str
    scan: str
    missing: str
    missing_hint: str


TEXTS: Mapping[str, Texts] = {
    "en": Texts(
        "Open the app",
        "Get the app",
        "Continue on the web",
        "This link opens in the app.",
        "This link opens in the app. Scan the code with your phone.",
        "This link leads nowhere",
        "It may have been mistyped, or it is no longer in use.",
    ),
    "de": Texts(
        "App öffnen",
        "App laden",
        "Im Web fortfahren",
        "Dieser Link öffnet sich in der App.",
        "Dieser Link öffnet sich in der App. Scannen Sie den Code mit Ihrem Telefon.",
        "Dieser Link führt nirgendwohin",
        "Vielleicht ist er falsch geschrieben oder nicht mehr in Gebrauch.",
    ),
    "fr": Texts(
        "Ouvrir l’application",
        "Télécharger l’application",
        "Continuer sur le web",
        "Ce lien s’ouvre dans l’application.",
        "Ce lien s’ouvre dans l’application. Scannez le code avec votre téléphone.",
        "Ce lien ne mène nulle part",
        "Il est peut-être mal saisi ou n’est plus utilisé.",
    ),
    "es": Texts(
        "Abrir la aplicación",
        "Descargar la aplicación",
        "Continuar en la web",
        "Este enlace se abre en la aplicación.",
        "Este enlace se abre en la aplicación. Escanee el código con su teléfono.",
        "Este enlace no lleva a ninguna parte",
        "Puede que esté mal escrito o que ya no se use.",
    ),
    "pt": Texts(
        "Abrir o aplicativo",
        "Baixar o aplicativo",
        "Continuar na web",
        "Este link abre no aplicativo.",
        "Este link abre no aplicativo. Escaneie o código com o seu celular.",
        "Este link não leva a lugar nenhum",
        "Ele pode estar escrito errado ou não ser mais usado.",
    ),
    "ja": Texts(
        "アプリを開く",
        "アプリを入手",
        "ウェブで続ける",
        "このリンクはアプリで開きます。",
        "このリンクはアプリで開きます。スマートフォンでコードを読み取ってください。",
        "リンク先が見つかりません",
        "リンクが間違っているか、現在は使われていません。",
    ),
}


@lru_cache(maxsize=1_000)
def preferred(accept_language: str) -> tuple[str, ...]:
    """The languages of an `Accept-Language` (RFC 9110, 12.5.4), most wanted first, without regions; what cannot be read is left out."""
    wanted: list[tuple[float, int, str]] = []
    for part in accept_language[:_LONGEST].split(","):
        if (found := _RANGE.fullmatch(part)) and (weight := float(found[2] or 1)) > 0:
            wanted.append((-weight, len(wanted), found[1].lower()))
    return tuple(language for _, _, language in sorted(wanted))


def spoken(languages: Sequence[str]) -> str:
    """The first of the languages that pages speak; English when they speak none."""
    return next((language for language in languages if language in TEXTS), "en")
