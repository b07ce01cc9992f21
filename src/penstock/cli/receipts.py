"""`penstock check-receipt` and `penstock rotate-receipt-key`.

The first needs no service and no network. The second opens only the metadata DB, so it also works
while the service runs.
"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.configuration import start_command
from penstock.cli.options import WRONG_USE, Config, Data, fail
from penstock.cli.stores import metadata_database


def check_receipt(
    file: Annotated[Path, typer.Argument(help="File of the receipt.")],
    key: Annotated[
        str,
        typer.Option(
            help="Public key in base64, or a file from /.well-known/penstock-receipt-keys.json. "
            "Get it another way than the receipt.",
            show_default=False,
        ),
    ],
) -> None:
    """Verify the file of a receipt, without the service that made it."""
    from pydantic import MISSING, ValidationError

    from penstock.base.clock import parse_time
    from penstock.base.wording import utc_time
    from penstock.receipts.changes import rate_words, step_words
    from penstock.receipts.schema import ReceiptDocument
    from penstock.receipts.signatures import (
        OF_OTHER_VERSION,
        NotVerified,
        parse_file,
        public_keys,
        verified_receipt,
    )

    keys, content = _text_of(Path(key)) if _is_file(key) else key, _text_of(file)
    try:
        verified = verified_receipt(parse_file(content), public_keys(keys))
        receipt = ReceiptDocument.model_validate(verified)
    except NotVerified as error:
        fail(f"{file}: {error}")
    except ValidationError:
        fail(f"{file}: {OF_OTHER_VERSION}")
    words = rate_words(receipt.figures, receipt.unit)
    start, end = receipt.period.start_at, receipt.period.end_at
    print(f"The receipt {receipt.id} is genuine: its signature fits the key.\n")
    print(f"{receipt.name}: {words}")
    print(f"Counted: {utc_time(parse_time(receipt.at))}, by Penstock {receipt.penstock}")
    if start is None or end is None:
        print("Period:  all time")
    else:
        print(f"Period:  {' until before '.join(utc_time(parse_time(at)) for at in (start, end))}")
    print(f"Steps:   {step_words(receipt.figures)}")
    cohorts = receipt.figures.cohorts
    if cohorts is not MISSING and cohorts:
        print(f"Cohorts: the figures of {len(cohorts)}, whose values only the service can show")
    print(f"Address: {receipt.url}")


def rotate_receipt_key(data: Data = None, config: Config = None) -> None:
    """Sign later receipts with a new key. Earlier receipts stay valid."""
    from penstock.base.clock import system_clock
    from penstock.metadb.secret_box import SecretBox, WrongSecretKey
    from penstock.receipts.keys import ReceiptKeys

    settings = start_command(config, data=data)
    with metadata_database(settings) as database:
        try:
            box = SecretBox.from_settings(settings)
        except WrongSecretKey as error:
            fail(f"PENSTOCK_SECRET_KEYS or PENSTOCK_SECRET_KEY_FILE: {error}", WRONG_USE)
        key_id = ReceiptKeys(database, box, system_clock).rotate()
    print(f"The key {key_id} signs receipts from now on. The earlier keys stay listed.")


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # too long for the name of a file
        return False


def _text_of(path: Path) -> str:
    from penstock.receipts.model import MAX_FILE_BYTES

    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            fail(f"{path}: A receipt has at most {MAX_FILE_BYTES:,} bytes.")
        return content.decode()
    except (OSError, ValueError) as error:
        fail(f"{path}: {getattr(error, 'strerror', None) or 'This is not a text file.'}", WRONG_USE)
