"""The full run: its parts, its page, and the warnings about old rows."""

import re
from dataclasses import replace

from tests.full import MAX_AGE, PAGE, PARTS, ROOT, Row, old_parts, read_page

RUN = Row("2026-11-28", "7c012d95", "5,943", "0", "35", "", "48", "5,100")


def test_every_part_has_a_row_on_the_page_and_a_nightly_job() -> None:
    page = PAGE.read_text()
    workflow = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    jobs = re.search(r"part: \[(.*)\]", workflow)
    assert jobs is not None
    assert jobs[1].split(", ") == re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(PARTS)


def test_a_row_is_read_as_it_was_written() -> None:
    line = "| " + " | ".join(("`shards`", "all that reads events", *RUN.cells())) + " |"
    assert read_page(line) == {**dict.fromkeys(PARTS, Row()), "shards": RUN}


def test_a_part_that_never_ran_or_ran_long_ago_is_named_if_the_history_is_known() -> None:
    ages = {"young": MAX_AGE, "old": MAX_AGE + 1, "unknown": None}
    rows = {age: replace(RUN, commit=age) for age in ages}
    lines = list(old_parts({**rows, "fuzz": Row()}, lambda commit: ages[commit]))
    assert lines == [
        "make test-full PART=old ran 201 commits ago, more than 200",
        "make test-full PART=fuzz has never run",
    ]


def test_each_part_runs_a_target_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {part.command[1] for part in PARTS.values()} <= targets
