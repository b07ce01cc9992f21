"""HTTP routes for receipts, and for the public keys that verify them."""

from litestar import Response

from penstock.accounts.model import Caller
from penstock.base.clock import iso
from penstock.base.paging import Listing
from penstock.http.answers import answer
from penstock.http.handlers import route
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import slow_route
from penstock.receipts.keys import ReceiptKeys
from penstock.receipts.model import MAX_FILE_BYTES
from penstock.receipts.schema import (
    NewReceipt,
    OpenedReceiptRecord,
    ReceiptFile,
    ReceiptFileIn,
    ReceiptKeyRecord,
    ReceiptKeysRecord,
    ReceiptRecord,
    ReceiptsQuery,
)
from penstock.receipts.service import ReceiptService
from penstock.receipts.signatures import ALGORITHM

KEYS_ADDRESS = "/.well-known/penstock-receipt-keys.json"
_CACHED = {"Cache-Control": "public, max-age=300"}


@slow_route("POST", "/api/receipts", "Keep a number", tag="receipts")
def make_receipt(caller: Caller, receipts: ReceiptService, form: NewReceipt) -> ReceiptRecord:
    """Counts, and keeps the number with everything that is needed to check it later.

    Counts what was received before the request; this takes some seconds.
    """
    return receipts.make(caller, form)


@route("GET", "/api/receipts", "Receipts", tag="receipts")
def list_receipts(
    caller: Caller, receipts: ReceiptService, query: ReceiptsQuery
) -> Listing[ReceiptRecord]:
    """Lists receipts, newest first."""
    return receipts.page(caller.workspace_id, query.pagination, query.funnel_id)


@slow_route("GET", "/api/receipts/{receipt_id:str}", "Open a receipt", tag="receipts")
def open_receipt(caller: Caller, receipts: ReceiptService, receipt_id: str) -> OpenedReceiptRecord:
    """Says whether the number is still the same, and if not, what changed it."""
    return receipts.open(caller.workspace_id, receipt_id)


@slow_route(
    "POST",
    "/api/receipts/open",
    "Open the file of a receipt",
    status=200,
    scopes=(KeyScope.READ,),
    max_bytes=MAX_FILE_BYTES,
    tag="receipts",
)
def open_receipt_file(
    caller: Caller, receipts: ReceiptService, file: ReceiptFileIn
) -> OpenedReceiptRecord:
    """Verifies a file and opens its receipt, also if this service does not have it any more."""
    return receipts.open_file(caller.workspace_id, file)


@route("GET", "/api/receipts/{receipt_id:str}/file", "File of a receipt", tag="receipts")
def read_receipt_file(caller: Caller, receipts: ReceiptService, receipt_id: str) -> ReceiptFile:
    """Returns the signed receipt. `penstock check-receipt` verifies it without the service."""
    return receipts.file(caller.workspace_id, receipt_id)


@route("DELETE", "/api/receipts/{receipt_id:str}", "Revoke a receipt", tag="receipts")
def revoke_receipt(caller: Caller, receipts: ReceiptService, receipt_id: str) -> None:
    """Ends its address. Files of the receipt stay valid as what was counted then."""
    receipts.revoke(caller, receipt_id)


@route(
    "GET",
    KEYS_ADDRESS,
    "Public keys of receipts",
    open_to_all=True,
    tag="receipts",
    answers=ReceiptKeysRecord,
)
def read_receipt_keys(receipt_keys: ReceiptKeys) -> Response[bytes]:
    """Lists the public keys of the installation, the newest first. Replaced keys stay listed."""
    keys = [
        ReceiptKeyRecord(
            key_id=key.id,
            algorithm=ALGORITHM,
            public_key=key.public,
            created_at=iso(key.created_at_ms),
            retired_at=None if key.retired_at_ms is None else iso(key.retired_at_ms),
        )
        for key in receipt_keys.all()
    ]
    return answer(ReceiptKeysRecord(keys=keys), headers=_CACHED)


ROUTES = (
    make_receipt,
    list_receipts,
    open_receipt,
    open_receipt_file,
    read_receipt_file,
    revoke_receipt,
    read_receipt_keys,
)
