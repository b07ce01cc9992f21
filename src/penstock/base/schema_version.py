"""The error that both stores raise if their schema is newer than the program."""


class NewerSchema(Exception):
    """A newer Penstock has migrated the store, so this program cannot read it safely.

    version: schema version of the store. newest_known: newest version that this program knows.
    """

    def __init__(self, store: str, version: str, newest_known: str) -> None:
        super().__init__(
            f"The {store} has schema version {version}, but this Penstock only knows versions up "
            f"to {newest_known}: a newer Penstock has upgraded it. Start that version again, or "
            "restore a backup from before the upgrade."
        )
