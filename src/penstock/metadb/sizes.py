"""How many bytes each table of the metadata database takes on disk."""

from sqlalchemy import Connection, text

_SQLITE_TABLES = text("""
    SELECT entry.tbl_name, sum(dbstat.pgsize)
    FROM dbstat JOIN sqlite_master AS entry ON entry.name = dbstat.name
    WHERE dbstat.aggregate = 1
    GROUP BY entry.tbl_name
""")
_SQLITE_FILE = text("""
    SELECT page_count * page_size, freelist_count * page_size
    FROM pragma_page_count, pragma_page_size, pragma_freelist_count
""")
_SQLITE_HAS_DBSTAT = text("SELECT count(*) FROM pragma_module_list WHERE name = 'dbstat'")
_POSTGRESQL_TABLES = text("""
    SELECT relname, pg_total_relation_size(relid)
    FROM pg_catalog.pg_statio_user_tables
    WHERE schemaname = current_schema()
""")

OTHER, FREE = "other", "free"


def table_sizes(connection: Connection) -> dict[str, int]:
    """Bytes by table, indexes included; `FREE` for pages that SQLite will use again.

    SQLite reads the whole file for it, seconds for a gigabyte. A SQLite without the module that
    can tell tables apart has all under `OTHER`.
    """
    if connection.dialect.name != "sqlite":
        return {row[0]: row[1] for row in connection.execute(_POSTGRESQL_TABLES)}
    file_size, free = connection.execute(_SQLITE_FILE).one()
    if not connection.execute(_SQLITE_HAS_DBSTAT).scalar_one():
        return {OTHER: file_size - free, FREE: free}
    return {row[0]: row[1] for row in connection.execute(_SQLITE_TABLES)} | {FREE: free}
