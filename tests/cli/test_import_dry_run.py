"""`penstock import --dry-run` says what a file contains, and needs no service."""

import gzip
import json

import pytest
import yaml

from tests.events.imports.exported import FILES, PostHog
from tests.serving import output_of, penstock

pytestmark = pytest.mark.usefixtures("starts_service")


def dry_run(path, content, name):
    path.write_bytes(content)
    result = penstock("import", str(path), "--from", name, "--dry-run")
    return result.returncode, result.stdout.splitlines(), result.stderr


NAMES = {
    "mixpanel": ["2  event        logged_in", "2  event        order_paid"],
    "posthog": ["2  event        order_paid"],
    "amplitude": ["2  event        order_paid", "1  event        logged_in"],
    "segment": ["2  event        order_paid"],
    "ga4": ["2  event        logged_in", "2  event        order_paid"],
}
LINES = {
    "mixpanel": [],
    "posthog": ["4 lines: linked visitors to users."],
    "amplitude": ["1 line: linked visitors to users."],
    "segment": ["2 lines: linked visitors to users."],
    "ga4": [],
}
NOTHING = ["1 line: skipped, with nothing to store."]


@pytest.mark.parametrize("name", FILES)
def test_the_story_has_the_figures_worked_out_by_hand(tmp_path, name):
    code, lines, _ = dry_run(tmp_path / "export", FILES[name](), name)
    number = {"mixpanel": 12, "ga4": 12, "amplitude": 11}.get(name, 10)
    assert (code, lines[0]) == (0, f"Dry run, nothing was stored. {number} events of 5 visitors.")
    assert lines[1] == "They occurred from 1 May 2024, 10:00 UTC to 1 May 2024, 12:00 UTC."
    conflict = "1 line: named a visitor of another user; nothing would be merged."
    ignored = NOTHING if name in ("amplitude", "segment") else []
    at = lines.index("Events by type and name:")
    warned = [line.partition(": ")[0] for line in lines[2:at] if line.startswith("Warning")]
    countries = {"amplitude": 11, "ga4": 12}  # Their names are no codes.
    assert warned == ([f"Warning, {countries[name]} lines"] if name in countries else [])
    assert lines[2 : at - len(warned)] == [*LINES[name], conflict, *ignored]
    end = next(n for n, line in enumerate(lines) if line.startswith("A first funnel."))
    assert [line.strip() for line in lines[at + 1 : end]] == [
        "5  pageview     /pricing",
        "3  event        checkout_started",
        *NAMES[name],
    ]


def test_posthogs_parquet_is_recognised_by_its_columns(tmp_path):
    file = tmp_path / "export.parquet"
    file.write_bytes(PostHog().as_parquet())
    result = penstock("import", str(file), "--dry-run")
    assert "4 lines: linked visitors to users." in output_of(result)
    result = penstock("import", str(file), "--guess-mapping")
    assert result.returncode == 2
    assert "--from posthog" in result.stderr


def event(name, visitor, second, **properties):
    return {
        "type": "event", "name": name, "visitorId": visitor, "properties": properties,
        "timestamp": f"2024-05-01T10:00:{second:02d}Z",
    }  # fmt: skip


def test_an_attempt_id_is_on_several_events_of_one_person_who_may_have_several(tmp_path):
    journeys = [("a", "c-1"), ("a", "c-2"), ("b", "c-3"), ("c", "c-4")]
    events = [
        event(name, visitor, second, cart=cart, plan="pro", email=f"{visitor}@example.com")
        for second, (visitor, cart) in enumerate(journeys)
        for name in ("started", "paid")
    ]
    events += [event("opened", "a", 30, page=number) for number in range(5)]
    _, lines, _ = dry_run(tmp_path / "past", "\n".join(map(json.dumps, events)).encode(), "ndjson")
    matching = [line for line in lines if "ooks like" in line]
    assert matching == [
        "Looks like an attempt ID: cart is on 100.0% of the steps' events and makes 4 attempts; "
        "1 visitor has several of them."
    ]


def test_the_first_funnel_of_whole_seconds_counts_equal_times_in_step_order(tmp_path):
    events = [event(name, f"v-{n}", n) for n in range(3) for name in ("started", "paid")]
    _, lines, _ = dry_run(tmp_path / "past", "\n".join(map(json.dumps, events)).encode(), "ndjson")
    at = next(n for n, line in enumerate(lines) if line.startswith("A first funnel."))
    assert lines[at + 1] == (
        "# All times in the file are whole seconds. Events with equal times count in the order of "
        "the steps."
    )
    [funnel] = yaml.safe_load("\n".join(lines[at + 1 :]))["funnels"]
    assert (funnel["countingUnit"], funnel["equalTimes"]) == ("visitor", "inStepOrder")
    assert funnel["name"] == "started to paid"


def guessed(path, dates, *options):
    """Guess the mapping of a table with these dates. Returns the mapping file, and the output."""
    path.write_text("\n".join(["at,user,event", *(f"{date} 10:00,u,e" for date in dates), ""]))
    output = output_of(penstock("import", str(path), "--guess-mapping", *options))
    return path.with_name(f"{path.name}.mapping.toml").read_text(), output


def test_a_guess_reads_dates_as_all_rows_allow_or_says_that_they_allow_both(tmp_path):
    either = ["01/02/2024"] * 30
    text, output = guessed(tmp_path / "a.csv", [*either, "13/02/2024"])
    assert 'format = "%d/%m/%Y %H:%M"' in text
    assert "day or the month" not in text + output
    text, output = guessed(tmp_path / "b.csv", either, "--timezone", "Europe/Berlin")
    assert 'format = "%m/%d/%Y %H:%M"' in text
    assert 'timezone = "Europe/Berlin"' in text
    for each in (text, output):
        assert "Check the format: every date can be read with the day or the month first." in each
    mapping = str(tmp_path / "b.csv.mapping.toml")
    tried = penstock("import", str(tmp_path / "b.csv"), "--map", mapping, "--dry-run")
    assert "If they are %d/%m/%Y %H:%M, correct the format in the mapping." in tried.stdout


def test_local_times_of_a_product_have_a_time_zone(tmp_path):
    times = ["2024-10-27 01:59:00", "2024-10-27 02:50:00", "2024-10-27 02:10:00"]
    lines = [{"event": "e", "distinct_id": "v", "timestamp": time} for time in times]
    path = tmp_path / "past.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    command = ("import", str(path), "--from", "posthog", "--dry-run", "--timezone")
    lines = output_of(penstock(*command, "Europe/Berlin")).splitlines()
    assert lines[1] == "They occurred from 26 Oct 2024, 23:59 UTC to 27 Oct 2024, 01:10 UTC."
    [warning] = [line for line in lines if line.startswith("Warning")]
    assert warning.startswith("Warning, 2 lines: Some local times are in an hour that occurs twice")
    for options, message in (
        (("posthog", "Europe/Bonn"), "Unknown time zone"),
        (("ndjson", "Europe/Berlin"), "--timezone: Times in this format have an offset."),
    ):
        refused = penstock(
            "import", str(path), "--from", options[0], "--dry-run", "--timezone", options[1]
        )
        assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr


def test_what_would_be_rejected_is_said_with_the_first_line_of_each_reason(tmp_path):
    good, repeat = event("a", "v", 1), event("b", "v", 2) | {"dedupeKey": "k"}
    lines = [good, "nonsense", {**good, "timestamp": "never"}, {**good, "timestamp": "x"}]
    text = "\n".join(map(json.dumps, [*lines, repeat, repeat])) + "\n\n"
    code, output, _ = dry_run(tmp_path / "past.gz", gzip.compress(text.encode()), "ndjson")
    assert code == 1
    assert output[0] == "Dry run, nothing was stored. 2 events of 1 visitor."
    at = output.index("3 lines: rejected.")
    assert output[2:at] == ["1 line: repeated an earlier event.", "1 line: empty."]
    assert output[at + 1].startswith("  2 lines, the first is line 3. timestamp: The time is")
    assert output[at + 2].startswith("  1 line, the first is line 2. ")


def test_it_is_said_that_the_import_would_stop(tmp_path):
    line = json.dumps(event("a", "v", 1)).encode()
    faulty = line.replace(b"2024", b"never") + b"\nnonsense\n"
    content = (line + b"\n") * 3 + faulty * 5_001 + line
    code, output, error = dry_run(tmp_path / "past.ndjson", content, "ndjson")
    assert (code, output[0]) == (1, "Dry run, nothing was stored. 3 events of 1 visitor.")
    assert error.endswith(
        "penstock: the import would fail after line 10,003: The import would stop after 10,000 "
        "rejected lines, more than 50 % of those read. Correct the file, or choose another "
        "format.\n"
    )


def test_what_does_not_fit_is_said_with_its_number_of_lines(tmp_path):
    deep = {"a": {"a": {"a": {"a": {"a": 1}}}}}
    line = {
        "event": "$exception", "distinct_id": "v", "timestamp": "2024-05-01T10:00:00Z",
        "properties": {"list": deep},
    }  # fmt: skip
    content = b"\n".join(json.dumps(line | {"uuid": f"{number}"}).encode() for number in range(3))
    code, output, _ = dry_run(tmp_path / "past.jsonl", content, "posthog")
    assert (code, output[0]) == (0, "Dry run, nothing was stored. 3 events of 1 visitor.")
    assert output[2].startswith("Warning, 3 lines: Some properties had parts below 5 levels")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    content = gzip.compress(json.dumps(event("a", "v", 1)).encode() * 1_000)[:-5]
    code, _, error = dry_run(tmp_path / "past.gz", content, "ndjson")
    assert (code, "truncated" in error) == (1, True)
    code, output, error = dry_run(tmp_path / "past", b"a word", "ndjson")
    assert (code, output) == (1, [])
    assert "does not begin with a JSON object" in error


@pytest.mark.parametrize("name", ["mixpanel", "posthog", "segment"])
def test_an_export_that_is_sent_as_ndjson_is_refused_with_its_format(tmp_path, name):
    code, output, error = dry_run(tmp_path / "export", FILES[name](), "ndjson")
    assert (code, output) == (1, [])
    assert f"looks like the format {name}, not ndjson. Add --from {name}.\n" in error


def test_a_dry_run_of_several_files_names_each(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(event("a", "v", 1)))
    (tmp_path / "b.json").write_text(json.dumps(event("b", "v", 1)))
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    output = output_of(penstock("import", *files, "--dry-run"))
    assert [file + ":" in output for file in files] == [True, True]
