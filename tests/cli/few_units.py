"""A service whose tables of units have a small limit: `python -m tests.cli.few_units`."""

from penstock.funnels.units import table
from tests import limited

MAX_UNITS = 100

if __name__ == "__main__":
    table.MAX_UNITS = MAX_UNITS
    limited.run()
