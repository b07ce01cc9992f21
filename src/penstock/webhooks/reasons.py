"""Why a webhook makes no messages."""

from collections.abc import Mapping

from penstock.funnels.queries.schema import DirectReason
from penstock.webhooks.model import MAX_WAITING

NOT_ALLOWED = (
    "The workspace shares figures only, and messages name units. An owner or member can allow it "
    "under Settings, Workspace, Sharing: “Also units”."
)
FULL = (
    f"{MAX_WAITING:,} messages wait, which is the limit. The others follow when the receiver has "
    "accepted these."
)
SET_ASIDE = "The service died twice while it made messages. It tries again within a day."
_NEVER: Mapping[DirectReason, str] = {
    DirectReason.OFF: "The service stores no outcomes: PENSTOCK_STORED_OUTCOMES is 0, or a server "
    "without PENSTOCK_WAREHOUSE_CLUSTER replicates its tables.",
    DirectReason.VISITOR_FUNNEL: "The funnel counts visitors. Webhooks need a funnel that counts "
    "attempts, because a merge of visitors changes outcomes without an event.",
    DirectReason.VISITOR_KEY: "The attempts of the funnel depend on the visitor. Webhooks need "
    "attempts by a property of events, such as an order ID.",
    DirectReason.TOUCHES: "The funnel reads touches, which may arrive later than its events.",
    DirectReason.VISITORS: "The funnel reads traits, saved cohorts or earlier events of visitors, "
    "which can change without an event of the attempt.",
    DirectReason.BREAKDOWN_AT: "The funnel is broken down by another event than the entry.",
    DirectReason.TOO_MANY_MATCHES: "The funnel has more than 64 matches.",
    DirectReason.PROVIDER_EVENTS: "Events of payment providers belong to attempts of the funnel, "
    "and whether these count depends on other events.",
}
"""Reasons that last until the funnel or the settings change."""
_NOT_YET = "The outcomes of the funnel are being stored. Messages follow."
REASONS = {reason: _NEVER.get(reason, _NOT_YET) for reason in DirectReason}


def lasting_reason(reason: DirectReason) -> str | None:
    """Return why the outcomes of a funnel cannot be stored; None if they only are not yet."""
    return _NEVER.get(reason)
