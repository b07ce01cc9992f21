"""Decides how far to trust a claim that links a visitor to a user."""

from penstock.accounts.model import Website
from penstock.base.errors import Fault, Invalid
from penstock.identity.model import Trust


def claim_trust(website: Website, *, is_backend: bool, is_signed: bool | None) -> Trust:
    """Return the trust of a claim.

    Raises `Invalid` if a signature is wrong, or required but missing.

    is_backend: whether the sender has an API key.
    is_signed: whether the sent `userHash` is correct; None if none was sent.
    """
    if is_signed is False:
        message = (
            "Must be the HMAC-SHA256 of userId with an identity secret of this website, in hex."
        )
        raise Invalid([Fault("userHash", "wrong_signature", message)])
    if is_backend:
        return Trust.BACKEND
    if is_signed:
        return Trust.SIGNED
    if website.requires_signed_identities:
        message = "This website accepts only signed user IDs: send their userHash."
        raise Invalid([Fault("userHash", "required", message)])
    return Trust.PUBLIC
