"""QR codes for links (ISO/IEC 18004).

They contain a short URL, so that they need few modules. A parameter of the URL marks scans.
"""

from functools import lru_cache
from io import BytesIO

import segno

from penstock.links.model import Link

SCAN_MARK = "qr=1"
"""Query string of the URL in a QR code. Clicks with it count as scans."""

_MODULE_PX = 4
_QUIET_ZONE = 4  # number of modules, as the standard requires
_ERROR_CORRECTION = "m"  # recovers from up to 15% damage, which is enough for print and screens


def scan_url(link: Link, base_url: str) -> str:
    """Return the URL for a link's QR code."""
    return f"{link.short_url(base_url)}?{SCAN_MARK}"


def qr_file(address: str, kind: str, scale: int) -> bytes:
    """Render the QR code as a file. kind: svg or png. scale: width of a module in pixels."""
    file = BytesIO()
    _qr_code(address).save(file, kind=kind, scale=scale, border=_QUIET_ZONE, light="#fff")
    return file.getvalue()


@lru_cache(maxsize=1_000)
def qr_svg(address: str) -> str:
    """Render the QR code as an inline SVG element, black on white in any colour scheme."""
    return _qr_code(address).svg_inline(
        scale=_MODULE_PX, border=_QUIET_ZONE, light="#fff", omitsize=True
    )


def _qr_code(address: str) -> segno.QRCode:
    return segno.make_qr(address, error=_ERROR_CORRECTION)
