"""The country that a network address lies in, by a file that the operator gives. None is shipped."""

from pathlib import Path

import maxminddb

_WITH_COUNTRIES = ("Country", "City", "Enterprise", "Location")
"""Parts of the type that a file of countries states of itself."""

_MAPPED = "::ffff:"
"""Begins an address of IPv4 as a socket of IPv6 tells it (RFC 4291, 2.5.5.2)."""


class GeoipUnreadable(Exception):
    """The file is not there, or of no use; the message says which file and why."""


class Countries:
    """Blocks for a few microseconds: the file is mapped into memory. Of no file, every country is unknown."""

    def __init__(self, file: Path | None) -> None:
        """file: in the format of MaxMind. GeoipUnreadable when it cannot be used."""
        self._reader = None if file is None else _opened(file)

    def of(self, address: str) -> str:
        """The country of an IP address as an ISO 3166-1 code of two capital letters; empty when it is not known."""
        if self._reader is None:
            return ""
        try:
            found = self._reader.get(address.removeprefix(_MAPPED))
        except (ValueError, maxminddb.InvalidDatabaseError):  # no IP address, one of IPv6 in a file of IPv4, or a damaged place in the file
            return ""
        country = found.get("country") if isinstance(found, dict) else None
        code = country.get("iso_code") if isinstance(country, dict) else None
        return code if isinstance(code, str) else ""


def _opened(file: Path) -> maxminddb.Reader:
    try:
        reader = maxminddb.open_database(file)
    except OSError as error:
        raise GeoipUnreadable(f"cannot read {file}: {error.strerror or error}") from None
    except maxminddb.InvalidDatabaseError:
        raise GeoipUnreadable(f"{file} is no file in MaxMind's format (.mmdb)") from None
    kind = reader.metadata().database_type
    if not any(part in kind for part in _WITH_COUNTRIES):
        reader.close()
        raise GeoipUnreadable(f"{file} has no countries: it is of the type {kind}; take one of countries or cities")
    return reader
