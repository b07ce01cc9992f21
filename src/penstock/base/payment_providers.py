"""Payment providers by name, with what is needed to count their stored events."""

from collections.abc import Mapping
from enum import StrEnum


class Provider(StrEnum):
    """A sender of webhooks. The values appear in URLs, and as `provider` in the stored events.

    STANDARD: any sender that follows Standard Webhooks.
    """

    STRIPE = "stripe"
    POLAR = "polar"
    STANDARD = "standardwebhooks"

    @property
    def whole_seconds(self) -> bool:
        """Whether the provider sends times in whole seconds. The time does not show it."""
        return _WHOLE_SECONDS[self]


_WHOLE_SECONDS: Mapping[Provider, bool] = {
    Provider.STRIPE: True,
    Provider.POLAR: False,
    Provider.STANDARD: False,
}
