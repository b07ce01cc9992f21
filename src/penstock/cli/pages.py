"""Finds the pages of the documentation on this machine, so that messages can name them."""

import sysconfig
from pathlib import Path


def page_path(name: str) -> Path:
    """Return the path of a page such as `settings.md`: in the checkout, or where the package
    installed it.
    """
    checkout = Path(__file__).parents[3] / "docs" / name
    installed = Path(sysconfig.get_path("data")) / "share" / "doc" / "penstock" / name
    return checkout if checkout.is_file() else installed
