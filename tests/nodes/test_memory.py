"""After work has ended, the process returns the memory that it no longer needs."""

from pathlib import Path

from sqlalchemy import text

from penstock.metadb.database import Database
from penstock.nodes.memory import UnusedMemory

_ROWS, _ROW_BYTES, _RETURNED_MB = 2_000, 20_000, 20


def anonymous_mb() -> float:
    """Return the resident memory of this process that no file holds."""
    [line] = [
        line
        for line in Path("/proc/self/status").read_text("utf-8").splitlines()
        if line.startswith("RssAnon:")
    ]
    return int(line.split()[1]) / 1024


def test_work_that_has_ended_leaves_little_memory(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'work.db'}")
    used_s = [0.0, 1000.0, 1000.0]
    memory = UnusedMemory(database, lambda: used_s.pop(0))
    with database.write() as db:
        db.execute(text("CREATE TABLE work (content BLOB)"))
        insert = text("INSERT INTO work VALUES (randomblob(:size))")
        db.execute(insert, [{"size": _ROW_BYTES}] * _ROWS)
    busy_mb = anonymous_mb()
    memory.look()
    assert anonymous_mb() > busy_mb - _RETURNED_MB, "it was busy"
    memory.look()
    assert anonymous_mb() < busy_mb - _RETURNED_MB
    with database.read() as db:
        assert db.execute(text("SELECT count(*) FROM work")).scalar_one() == _ROWS
    database.close()
