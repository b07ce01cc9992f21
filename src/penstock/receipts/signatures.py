"""Signs receipts with Ed25519, and verifies them without a service. No I/O.

The signature is that of the receipt's canonical JSON: UTF-8, keys in the order of their code
points, no spaces. `cryptography` takes megabytes of memory, so it is imported when the first
receipt is signed or verified.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

ALGORITHM = "Ed25519"
OF_OTHER_VERSION = "The signature fits, but another version of Penstock wrote the receipt."
_KEY_BYTES = 32


class KeyPair(NamedTuple):
    """Both keys in base64."""

    public: str
    private: str


class NotVerified(Exception):
    """The receipt was changed, was signed with another key, or is not a receipt. Its message says
    which.
    """


def canonical_json(value: Any) -> str:
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )


def new_key_pair() -> KeyPair:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    raw = (key.public_key().public_bytes_raw(), key.private_bytes_raw())
    return KeyPair(*(b64encode(part).decode() for part in raw))


def sign(private_key: str, text: str) -> str:
    """Return the signature of a text in base64."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(b64decode(private_key))
    return b64encode(key.sign(text.encode())).decode()


def is_signed(public_key: str, text: str, signature: str) -> bool:
    """Whether a signature is that of this text and key. Raises `NotVerified` for a malformed
    key.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = _decoded(public_key)
    if raw is None or len(raw) != _KEY_BYTES:
        raise NotVerified("The key is not an Ed25519 public key in base64.")
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(_decoded(signature) or b"", text.encode())
    except InvalidSignature:
        return False
    return True


def parse_file(text: str) -> Any:
    """Parse the JSON of a file. Raises `NotVerified`, also if an object has a key twice: readers
    differ in which of both they show.
    """
    try:
        return json.loads(text, object_pairs_hook=_object_of)
    except (ValueError, RecursionError):
        raise NotVerified("This file is not a receipt.") from None


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError
    return content


def verified_receipt(file: Any, keys: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the receipt of a file that one of these keys has signed.

    file: the parsed JSON of the file, which may have nothing else. keys: public keys by their IDs;
    a key whose ID is not known has the ID "". Raises `NotVerified`.
    """
    match file:
        case {
            "algorithm": str(algorithm),
            "keyId": str(key_id),
            "receipt": dict(receipt),
            "signature": str(signature),
            **more,
        } if not more:
            pass
        case _:
            raise NotVerified("This file is not a receipt.")
    if algorithm != ALGORITHM:
        raise NotVerified(f"Receipts are signed with {ALGORITHM}, and this file names {algorithm}.")
    public_key = keys.get(key_id, keys.get(""))
    if public_key is None:
        raise NotVerified(f"The key {key_id} that the file names is not among the keys.")
    try:
        is_genuine = is_signed(public_key, canonical_json(receipt), signature)
    except ValueError:
        raise NotVerified("This file is not a receipt.") from None
    if not is_genuine:
        raise NotVerified("The signature does not fit: the receipt was changed, or is forged.")
    return receipt


def public_keys(text: str) -> Mapping[str, str]:
    """Return public keys by their IDs, from a key in base64 or the JSON of the well-known address.

    Raises `NotVerified` for any other text.
    """
    text = text.strip()
    if not text.startswith("{"):
        return {"": text}
    try:
        keys = json.loads(text)["keys"]
        return {str(each["keyId"]): str(each["publicKey"]) for each in keys}
    except (ValueError, LookupError, TypeError, RecursionError):
        raise NotVerified("The file with the keys is not the one of a Penstock service.") from None


def _decoded(text: str) -> bytes | None:
    """Decode base64. None if the text is another than that of its bytes."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        return None
    return raw if b64encode(raw).decode() == text else None
