"""What the commands of `penstock` import, for the fork server of the tests.

Without the embedded engine: its threads would not survive a fork. Those of the libraries that it
imports are few, and restart.
"""

import gc

import clickhouse_connect.driver.httpclient  # noqa: F401
import numpy  # noqa: F401 - nobody names it here
import pyarrow  # noqa: F401
import uvicorn.lifespan.on
import uvicorn.loops.uvloop  # noqa: F401
from litestar import Litestar

import penstock.app
import penstock.backup.service
import penstock.backup.verification
import penstock.cli.backup
import penstock.cli.demo
import penstock.cli.import_file
import penstock.cli.migrate
import penstock.cli.serve
import penstock.cli.simulate
import penstock.edge.protocol
import penstock.stores  # noqa: F401
from penstock.base.user_agent import parse_user_agent
from tests.quick_passwords import hash_cheaply

hash_cheaply()
Litestar()  # loads its plugins
parse_user_agent("")  # builds its patterns
gc.freeze()  # a collection in a forked process would visit, and so copy, all of it
