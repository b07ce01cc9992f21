"""`penstock imports undo` as a real process against a real service."""

from tests.cli.commands import run
from tests.events.conftest import finished, upload_to
from tests.records import new_website
from tests.serving import error_of, output_of


def line(number):
    at = f"2020-05-01T10:00:{number:02d}Z"
    return {"type": "event", "name": "step", "timestamp": at, "visitorId": f"v{number}"}


def imported(service, website_id, *numbers, **query):
    answer = upload_to(service.client, website_id, map(line, numbers), **query)
    return finished(service.client, answer.json()["id"])["id"]


def test_an_import_is_undone_from_the_command_line(service):
    website_id = new_website(service.client, "Undone")
    import_id = imported(service, website_id, 1, 2, 3)
    other_id = imported(service, website_id, 3, fileName="june.ndjson")
    removed = [
        "They occurred from 1 May 2020, 10:00 UTC to 1 May 2020, 10:00 UTC.",
        "Nothing else has named 3 visitors and 0 users, nor linked 0 merged visitors. Traits are "
        "stated of 0 users.",
        "Dropped as duplicates of this import: 1 line of other files. Their events will be missing "
        "until you import these files again:",
        f"  june.ndjson ({other_id}): 1 line",
    ]
    dry_run = output_of(run(service, "imports", "undo", import_id, "--dry-run"))
    assert dry_run.splitlines() == ["3 events would be removed.", *removed]
    output = output_of(run(service, "imports", "undo", import_id))
    done = f"The import {import_id} is undone: 3 events."
    assert output.splitlines() == ["3 events are being removed.", *removed, done]
    output = output_of(run(service, "imports", "undo", import_id))
    assert output.splitlines() == ["The import was undone before.", done]
    error = error_of(run(service, "imports", "undo", "imp_none"))
    assert "There is no such import" in error
