"""Tells by the name of a column or property whom or what its IDs name."""

USERS = (
    "userid", "user", "uid", "customerid", "customer", "memberid", "member", "accountid",
    "clientno", "customerno", "customernumber", "usernumber", "email", "useremail", "personid",
    "person", "contactid", "subscriberid", "profileid",
)  # fmt: skip
VISITORS = (
    "visitorid", "visitor", "anonymousid", "anonid", "anonymous", "distinctid", "deviceid",
    "cookieid", "clientid", "cid", "userpseudoid", "domainuserid", "networkuserid",
    "fullvisitorid", "idvisitor", "device",
)  # fmt: skip
"""Usual names of users and visitors, as `words_of` writes them; the best come first."""
_OWNERS = (
    "user", "customer", "member", "account", "client", "person", "contact", "subscriber",
    "profile", "email", "visitor", "anonymous", "anon", "distinct", "device", "cookie", "pseudo",
    "browser", "install", "installation", "fingerprint", "ipaddress", "machine", "hardware",
    "android", "advertising", "vendor", "imei",
)  # fmt: skip
"""Ends of names of people and devices, without their `_ENDINGS`."""
_SESSIONS = ("session", "visit")
_SHORT = ("idfa", "idfv", "gaid", "aaid", "adid", "udid", "ip", "clientip", "userip", "remoteip")
"""Short names of devices and addresses, as `words_of` writes them. Longer ones, such as `trip_id`,
may end like them.
"""
_ENDINGS = ("idx", "id", "uuid", "guid", "number", "no", "hash", "key")


def words_of(name: str) -> str:
    """Return a name in lower case, without spaces and signs."""
    return "".join(character for character in name.lower() if character.isalnum())


def names_owner(name: str) -> bool:
    """Whether a name is that of a person, a device or a session, whose IDs do not name attempts."""
    return names_person_or_device(name) or _stem(name).endswith(_SESSIONS)


def names_person_or_device(name: str) -> bool:
    """Whether a name is that of a person or a device. Their IDs outlive every attempt."""
    words = words_of(name)
    is_usual = {words, words.removeprefix("id")} & {*USERS, *VISITORS, *_SHORT}
    return bool(is_usual) or _stem(name).endswith(_OWNERS)


def looks_like_id(name: str) -> bool:
    """Whether a name ends like that of an ID."""
    words = words_of(name)
    return words.startswith("id") or words.endswith((*_ENDINGS, "ref", "token"))


def _stem(name: str) -> str:
    """Return the words of a name without `id` and other ends of names of IDs."""
    words = words_of(name).removeprefix("id")
    return words.removesuffix(next((end for end in _ENDINGS if words.endswith(end)), ""))
