"""Progress of long commands without a terminal: a line every few seconds."""

from time import sleep

from penstock.cli.progress import every_few_seconds, progress, still_running
from tests.waiting import eventually


def test_each_phase_has_a_line_at_its_start_and_one_at_its_end(capsys):
    with progress("events") as bar:
        for done in (0, 1, 2, 1000, 1000, 1000):
            bar.update("Sending", done, 1000)
        bar.update("Opening", 5, 5)
    assert capsys.readouterr().err.splitlines() == [
        "Sending: 0 of 1,000 events",
        "Sending: 1,000 of 1,000 events",
        "Opening: 5 of 5 events",
    ]


def test_work_whose_end_nobody_can_foresee_shows_that_it_goes_on(capsys):
    seen = list[int]()
    with every_few_seconds(seen.append, interval_s=0.01):
        eventually(lambda: len(seen) > 2)
    after = len(seen)
    sleep(0.05)
    assert len(seen) == after
    still_running("Backing up")(5)
    assert capsys.readouterr().err == "Backing up: 5 s\n"
