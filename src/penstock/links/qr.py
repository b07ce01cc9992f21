"""QR codes of links (ISO/IEC 18004). The address in a code is short, so that the code is coarse, and marks the click as a scan."""

from functools import lru_cache
from io import BytesIO

import segno

from penstock.links.model import Link

SCANNED = "qr=1"
"""In the query of an address: it was read from a code."""

_MODULE_PX = 4
_QUIET_ZONE = 4  # modules, as the standard asks for
_ERROR_CORRECTION = "m"  # 15 %: enough for print and screens


def scan_url(link: Link, base_url: str) -> str:
    """The address in the code of a link."""
    return f"{base_url}/l/{link.slug}?{SCANNED}"


def code_file(address: str, kind: str, scale: int) -> bytes:
    """A picture as a file. kind: svg or png. scale: pixels of one module."""
    file = BytesIO()
    _code(address).save(file, kind=kind, scale=scale, border=_QUIET_ZONE, light="#fff")
    return file.getvalue()


@lru_cache(maxsize=1_000)
def inline_code(address: str) -> str:
    """A picture as an SVG element for a page, black on white in any colour scheme, without styles of its own."""
    return _code(address).svg_inline(scale=_MODULE_PX, border=_QUIET_ZONE, light="#fff", omitsize=True)


def _code(address: str) -> segno.QRCode:
    return segno.make_qr(address, error=_ERROR_CORRECTION)
