"""Settings of earlier versions that are now constants, with the values in use."""

from penstock.base import event_limits
from penstock.settings import Settings


def removed_settings(settings: Settings) -> dict[str, object]:
    """Return the values in use, by the name of the variable that used to set each of them."""
    from penstock.accounts.single_sign_on.model import SCOPES
    from penstock.edge.connections import MAX_HEAD_BYTES
    from penstock.health.service import OUTBOX_AGE_S
    from penstock.links.attribution.service import RESOLVES_PER_MINUTE

    event_names = (
        *("MAX_EVENT_BYTES", "MAX_BATCH_EVENTS", "MAX_ID_BYTES", "MAX_NAME_CHARS"),
        *("MAX_PATH_CHARS", "MAX_PROPERTY_KEYS", "MAX_PROPERTY_DEPTH", "MAX_STRING_BYTES"),
        "FUTURE_TOLERANCE_S",
    )
    values = {
        **{name: getattr(event_limits, name) for name in event_names},
        **{name.upper(): value for name, value in vars(settings.limits).items()},
        "HEADER_BYTES": MAX_HEAD_BYTES,
        "OIDC_SCOPES": SCOPES,
        "OUTBOX_AGE_S": OUTBOX_AGE_S,
        "RESOLVES_PER_MINUTE": RESOLVES_PER_MINUTE,
    }
    return {f"PENSTOCK_{name}": values[name] for name in sorted(values)}
