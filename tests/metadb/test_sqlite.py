"""What is particular to SQLite: its log, which a long read lets grow."""

from pathlib import Path

from sqlalchemy import text

from penstock.metadb.database import Database

MEGABYTE = 1_000_000


def test_the_log_shrinks_again_after_a_long_read(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'penstock.sqlite3'}")
    log = tmp_path / "penstock.sqlite3-wal"

    def write(size: int) -> None:
        with database.write() as db:
            db.execute(text("INSERT INTO t VALUES (randomblob(:size))"), {"size": size})

    with database.write() as db:
        db.execute(text("CREATE TABLE t (x BLOB)"))
    with database.read() as db:
        db.execute(text("SELECT count(*) FROM t"))
        write(100 * MEGABYTE)
    assert log.stat().st_size > 100 * MEGABYTE
    for _ in range(3):
        write(1)
    assert log.stat().st_size <= 80 * MEGABYTE
    database.close()
