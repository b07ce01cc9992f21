"""All tables of the metadata DB. Times are milliseconds since 1970-01-01 UTC, and IDs are opaque
text.

Each module has the tables of one subject, with the indexes that queries need. Migrations create
exactly these tables; a test compares both, including the comments that PostgreSQL stores. Comments
in Python can change without a migration.
"""

from penstock.metadb.tables.accounts import *
from penstock.metadb.tables.alerts import *
from penstock.metadb.tables.annotations import *
from penstock.metadb.tables.background import *
from penstock.metadb.tables.base import *
from penstock.metadb.tables.cohorts import *
from penstock.metadb.tables.definitions import *
from penstock.metadb.tables.digests import *
from penstock.metadb.tables.forecasts import *
from penstock.metadb.tables.identity import *
from penstock.metadb.tables.intake import *
from penstock.metadb.tables.managed_links import *
from penstock.metadb.tables.providers import *
from penstock.metadb.tables.receipts import *
from penstock.metadb.tables.shares import *
from penstock.metadb.tables.transfers import *
from penstock.metadb.tables.webhooks import *
