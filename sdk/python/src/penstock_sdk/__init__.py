"""Send events to Penstock and read its funnels."""

from penstock_sdk.calls import PenstockError
from penstock_sdk.client import AsyncPenstock, Penstock
from penstock_sdk.events import JSON, Refusal, metadata
from penstock_sdk.outbox import Full
from penstock_sdk.results import Results
from penstock_sdk.sending import Attempt

__all__ = [
    "JSON",
    "AsyncPenstock",
    "Attempt",
    "Full",
    "Penstock",
    "PenstockError",
    "Refusal",
    "Results",
    "metadata",
]
