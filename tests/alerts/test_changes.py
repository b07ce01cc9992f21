"""One message for each change: which verdicts need a message, and which one."""

import pytest

from penstock.alerts.changes import changes_of
from penstock.alerts.checks import Period
from penstock.alerts.model import Finding, Verdict

VERDICTS = {"!": Verdict.ALARMING, ".": Verdict.FINE, "?": Verdict.UNDECIDED}


def messages(stored: str, judged: str) -> str:
    """The messages of a check, a letter for each period: Alarm, Recovery, Correction or `-`.

    stored: a character for each period; `m`: it alarms, and had a message; a space: no finding.
    """
    findings = [
        Finding(at, at + 1, VERDICTS["!" if sign == "m" else sign], {}, 0, "msg" * (sign == "m"))
        for at, sign in enumerate(stored)
        if sign != " "
    ]
    periods = [Period(at, at + 1, VERDICTS[sign], {}) for at, sign in enumerate(judged)]
    changed = {change.period.start_ms: change for change in changes_of(findings, periods)}
    return "".join(
        "-" if at not in changed or (kind := changed[at].message) is None else kind[0].upper()
        for at in range(len(judged))
    )


@pytest.mark.parametrize(
    ("stored", "judged", "expected"),
    [
        ("", "???", "---"),
        ("", "...", "---"),
        ("", "..!", "--A"),
        ("..m", "..!", "---"),
        ("..m", "..!!", "----"),  # the change has its message
        ("..m", "..!.", "---R"),
        ("..m.", "..!..", "-----"),
        ("..m?", "..!?!", "-----"),  # what is undecided ends no change
        ("..?m", "..!!", "----"),  # an earlier period was decided later
        (". .", ".!.", "-A-"),
        ("..m", "..?", "--C"),
        ("..m", "...", "--C"),
        ("..m!", "..?!", "--CA"),  # the rest of the change gets an alarm of its own
        ("..m!", "...!", "--CA"),
        (".", "!", "A"),  # late data
        ("m.m", "!.!", "---"),
        ("m?!", "!.!", "--A"),
    ],
)
def test_each_change_has_one_message(stored: str, judged: str, expected: str) -> None:
    assert messages(stored, judged) == expected
