"""Finds the country of a network address, using a GeoIP file that the operator provides."""

from pathlib import Path

import maxminddb

_TYPES_WITH_COUNTRIES = ("Country", "City", "Enterprise", "Location")
"""Words in the type names of databases that contain countries. Each file states its type."""

_MAPPED_PREFIX = "::ffff:"
"""Prefix of an IPv4 address received on an IPv6 socket. Source: RFC 4291, 2.5.5.2."""


class GeoipFileError(Exception):
    """The GeoIP file is missing or unusable. The message contains its path and the reason."""


class CountryLookup:
    """Looks up countries in a memory-mapped file, in microseconds. Without a file, all countries
    are unknown.
    """

    def __init__(self, file: Path | None) -> None:
        """file: a file in MaxMind's format. Raises `GeoipFileError` if it is unusable."""
        self._reader = None if file is None else _open_database(file)

    def country(self, address: str) -> str:
        """Return the ISO 3166-1 alpha-2 country code of an IP address; empty if unknown."""
        if self._reader is None:
            return ""
        try:
            record = self._reader.get(address.removeprefix(_MAPPED_PREFIX))
        except (ValueError, maxminddb.InvalidDatabaseError):
            # The text is not an IP address, or it is an IPv6 address and the file covers only IPv4,
            # or the file is partly damaged.
            return ""
        country = record.get("country") if isinstance(record, dict) else None
        code = country.get("iso_code") if isinstance(country, dict) else None
        return code if isinstance(code, str) else ""


def _open_database(file: Path) -> maxminddb.Reader:
    try:
        reader = maxminddb.open_database(file)
    except OSError as error:
        raise GeoipFileError(f"cannot read {file}: {error.strerror or error}") from None
    except maxminddb.InvalidDatabaseError:
        raise GeoipFileError(f"{file} is not in MaxMind's format (.mmdb)") from None
    kind = reader.metadata().database_type
    if not any(part in kind for part in _TYPES_WITH_COUNTRIES):
        reader.close()
        raise GeoipFileError(
            f"{file} has no countries: its type is {kind}; use a country or city database"
        )
    return reader
