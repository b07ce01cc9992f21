"""Migrations: released files are frozen, and what they build is what the code expects."""

from hashlib import sha256
from importlib.resources import files

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from penstock.metadb.database import Database
from penstock.metadb.tables import metadata
from penstock.stores import Stores, migrate
from penstock.warehouse.migrations import migrations

pytestmark = pytest.mark.every_database

RELEASED = {
    "penstock.metadb.migrations.versions": {
        "0001_initial.py": "72aedbc45dc3f787bb430d2054a0d9ed964879b13ee752ae0ef2a85d28db51f5",
        "0002_gaps_and_setup_tokens.py": "7f10751dadcea6d910faf1c5c1c9948353d63e43cb084bf43505513926e54e8c",
        "0003_daily_events.py": "fd9546008fd2ee77ccda107ba997f20da53f03d0aafd6df2b54ad94501534408",
        "0004_quarantine.py": "73d1834324b8157da20b8ee9afb1c3f43a6e8cb6901abd487e7be6d5d1c40ec5",
        "0005_access.py": "e2f78c132834e260b51cb9b9ed22859c5b8d566d42cdb8f1c718ca5a9e593455",
        "0006_import_warnings.py": "9422206fa816a6959fd5fe118056b07823d23156d5b7977d736c103429562269",
        "0007_retention.py": "1a6feed0d8ce34a1434a3dcad3c5a7666e91d78ea90da4d733d2f44b1655c1f7",
        "0008_second_factors.py": "d7100be4edf93ec375fc462f3fb503672d881ce382f314dbafb59abd275486fc",
        "0009_lost_on_devices.py": "2f3a87a04ae1cbccc3efab11e3245b5b60ab66e17e8816af469983958e1820de",
        "0010_link_revisions.py": "a672fbc4013b9dc9d2508707c9f5792338c08feb9dbfa170f3ef42644044a288",
        "0011_lost_events.py": "e00dae4f077f68a8d9b8411edaaed7da6b89e438a28bd2e0a1309cf500815066",
        "0012_jobs.py": "b7b092289888cee118564db0c65c5991db8c4c1fc23d191992b2d13529b2e5c4",
        "0013_outcome_claims.py": "9b584113e2973012b4257f908d788e177cf3404725bbc0609e6138474fdd3e5e",
        "0014_user_links.py": "b3b4b339dfbb3a03e5aa8448a247f609f0a4fa5f7467688ee5679adeaf1dc10c",
        "0015_link_queries.py": "84e2c757d9b78bfc9873bde167a43d8e0d7df5955fd1a1e3b9e395078c29eb04",
        "0016_losses.py": "9167a9c3756916cb25163ee4cd0eb261c60cf744a5a21c17e7f1975d6cacb024",
        "0017_confirmed_addresses.py": "b44533c11f26a1a277b6e078020bdd48c19a1409759ee7a765323c6b3809c4ba",
        "0018_device_clocks.py": "5c18c6c90690f2da18926ef4b6f987e317e65c98a4ab557944876a6105f81514",
        "0019_open_releases.py": "3db1951f6475b08ddb4acc707e882ade53466aa9e50a9c3ae73fa3ce76871ef3",
        "0020_empty_lines.py": "8d0dfc3087c7157ae2b59f1be4ef2f2e2d2339924583e01902afc78c65b717b2",
        "0021_keyed_track_posts.py": "65041c413d585dca15a34cad3c3d2d43eee44e3650cf98c686230e9a74182ef3",
        "0022_page_paths.py": "6a5e3d2a6656cd7208aceb988da3217092f0a47ca93147a85b9c92e809ce169f",
    },
    "penstock.warehouse.migrations": {
        "0001_initial.sql": "509f257378de6443b1b68afbc2fcf916cb34892a0338d0eae4325e86ad8cf452",
        "0002_client_event_id.sql": "17349b724df1541c80ff7d5d16f18e18b19ee7a7d0e943dc0aef2aed86cdd91a",
        "0003_shippable.sql": "d8e5b3a9dabe75167907afdd3dd95cca1bed5eb0db203fe6da193ffb0e33c4f8",
        "0004_outcomes.sql": "387849e4f399a57ac0eff6314a626b37bc428933fbed8d92d985d2a824cbeab1",
        "0005_link_revisions.sql": "dba99878fdb156d51219e6ded731d2be2646773a25defa325601ce5f2d7a1bdb",
        "0006_codecs.sql": "c08c3cfcc8719668adbca098d78cb541953ff72c8276f1f6dc4ed30efb4c7d0e",
        "0007_shipment_marks.sql": "4e7963061fcaa4e346012c660cd2c64d7aca7d9ad599c339d412667c048ccfc0",
        "0008_page_paths.py": "266ada9cb109a1cc05dbafbe5a916ac3e9c90e7280be64ce5bba04b1cbf15785",
    },
}
"""SHA-256 of every migration that a release contains. A change needs a new migration instead."""


def test_released_migrations_never_change() -> None:
    for package, hashes in RELEASED.items():
        for name, digest in hashes.items():
            content = files(package).joinpath(name).read_bytes()
            assert sha256(content).hexdigest() == digest, f"{package}: {name} was released"


def test_migrated_tables_are_those_of_the_code(database_url: str) -> None:
    database = Database(database_url)
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    database.close()


def test_migrating_again_changes_nothing(database_url: str, warehouse) -> None:
    database = Database(database_url)
    first = migrate(Stores(database, warehouse))
    assert migrate(Stores(database, warehouse)) == first
    rows = warehouse.query("SELECT count() FROM schema_migrations")[1]
    assert rows == [(first.warehouse,)]
    database.close()


def test_every_statement_of_the_event_store_can_run_again(warehouse) -> None:
    for migration in migrations():
        for statement in migration.statements:
            warehouse.command(statement)
            warehouse.command(statement)


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [migration.version for migration in migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
