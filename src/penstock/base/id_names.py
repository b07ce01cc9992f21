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
    "browser", "install", "installation", "fingerprint", "ip", "ipaddress", "session", "visit",
)  # fmt: skip
"""Ends of names of people, devices and sessions, without their `_ENDINGS`."""
_ENDINGS = ("idx", "id", "uuid", "guid", "number", "no", "hash", "key")


def words_of(name: str) -> str:
    """Return a name in lower case, without spaces and signs."""
    return "".join(character for character in name.lower() if character.isalnum())


def names_owner(name: str) -> bool:
    """Whether a name is that of a person, a device or a session, whose IDs do not name attempts."""
    words = words_of(name).removeprefix("id")
    ending = next((each for each in _ENDINGS if words.endswith(each)), "")
    return words in (*USERS, *VISITORS) or words.removesuffix(ending).endswith(_OWNERS)
