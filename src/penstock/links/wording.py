"""How an open was matched to a link, and why it was not, in words. Keys: the values of `resolving.Method` and `resolving.Reason`."""

from collections.abc import Mapping

METHODS: Mapping[str, str] = {
    "url": "the address that it was opened with",
    "install_referrer": "the install referrer of Google Play",
    "click_token": "the click token that the app handed over",
    "network": "network, platform and version of the system alone",
}
REASONS: Mapping[str, str] = {
    "no_click": "nothing that the app handed over belongs to a click, and no click of the last hour fits its network",
    "expired": "the click is older than this method allows",
    "ambiguous": "several clicks fit, so that none can be taken",
    "claimed": "the click belongs to another install already",
    "disabled": "the link is disabled",
    "not_allowed": "the app handed nothing over, and matching by network is switched off for this platform",
}
