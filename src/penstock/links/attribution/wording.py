"""Descriptions of methods and reasons for people, keyed by the values of `Method` and `Reason`."""

from collections.abc import Mapping

METHODS: Mapping[str, str] = {
    "url": "the URL that opened the app",
    "install_referrer": "Google Play's install referrer",
    "click_token": "the click token that the app sent",
    "network": "network, platform and OS version only",
}
REASONS: Mapping[str, str] = {
    "no_click": "the app sent no evidence of a click, and no click from its network in the last "
    "hour fits",
    "expired": "the click is too old for this method",
    "ambiguous": "several clicks match; too ambiguous to attribute",
    "claimed": "another install has already claimed the click",
    "disabled": "the link is disabled",
    "link_expired": "the link has expired",
    "not_allowed": "the app sent no evidence, and matching by network is off for this platform",
}
