"""The refusal that both stores share when their data are newer than the program."""


class NewerSchema(Exception):
    """A newer Penstock has migrated the store, so this one cannot read it safely.

    found, known: the store's schema version and the newest that this program knows.
    """

    def __init__(self, store: str, found: str, known: str) -> None:
        super().__init__(
            f"The {store} has schema version {found}, but this Penstock only knows versions up to "
            f"{known}: a newer Penstock has upgraded it. Start that version again, or restore a "
            f"backup from before the upgrade."
        )
