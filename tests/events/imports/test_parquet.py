"""Parquet: types of columns, and files that are damaged or ask for too much."""

import io
import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.events.imports.formats import parquet as reader
from tests.answers import problem
from tests.cases import cases
from tests.events.conftest import finished, imported, upload
from tests.events.imports.conftest import rejects, stored
from tests.events.imports.exported import parquet
from tests.events.imports.test_dry_run import checked

pytestmark = pytest.mark.usefixtures("warehouse")

NAMES = [
    {"column": "at", "use": "time", "unit": "text"},
    {"column": "who", "use": "user"},
    {"column": "what", "use": "event"},
]
MAPPING = {"columns": NAMES, "otherColumns": "property"}
AT = datetime(2024, 5, 1, 10, tzinfo=UTC)
ROW = {"at": [AT], "who": [7], "what": ["bought"]}


@pytest.fixture
def import_parquet(workspace):
    def run(content, **query):
        query = {"mapping": json.dumps(MAPPING), "format": "parquet", **query}
        return imported(workspace, content, reader.MEDIA_TYPE, **query)

    return run


def test_each_type_of_column_is_a_property(import_parquet, services, workspace):
    columns = [
        (["pro"], "pro"),
        (pa.array([b"pro"]), "pro"),
        (pa.array(["pro"]).dictionary_encode(), "pro"),
        ([7], 7),
        ([2.5], 2.5),
        ([True], True),
        ([Decimal("9.50")], 9.5),
        ([Decimal("9.00")], 9),
        ([date(2024, 5, 1)], "2024-05-01"),
        (pa.array([AT], pa.timestamp("ns", "Europe/Berlin")), "2024-05-01T10:00:00Z"),
        (pa.array([AT], pa.timestamp("ms")), "2024-05-01T10:00:00"),
        ([{"a": [1, 2], "b": b"x"}], {"a": [1, 2], "b": "x"}),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), {"a": 1}),
        (pa.array([[([2], 1)]], pa.map_(pa.list_(pa.int64()), pa.int64())), [[[2], 1]]),
    ]
    columns = {f"p{index}": column for index, column in enumerate(columns)}
    values = {name: column for name, (column, _) in columns.items()}
    assert import_parquet(parquet({**ROW, **values}))["accepted"] == 1
    [text] = stored(services, workspace.website_id, "properties")
    assert json.loads(text) == {name: value for name, (_, value) in columns.items()}


@cases(
    ("kind", "at"),
    [
        ("nanoseconds", pa.array([AT], pa.timestamp("ns", "UTC"))),
        ("without a zone", pa.array([AT], pa.timestamp("s"))),
        ("text", ["2024-05-01 12:00:00+02:00"]),
    ],
)
def test_times_of_each_kind_are_read(import_parquet, kind, at):
    job = import_parquet(parquet({**ROW, "at": at, "what": [kind]}))
    assert job["firstEventAt"] == "2024-05-01T10:00:00.000Z"


def test_a_row_with_a_wrong_value_is_rejected_with_its_number(import_parquet, workspace):
    job = import_parquet(
        parquet(
            {
                "at": pa.array([AT.timestamp() * 1e6, 2**62, 0, 0], pa.int64()).cast(
                    pa.timestamp("us", "UTC")
                ),
                "who": [1.0, 2.0, 3.5, 4.0],
                "what": pa.array([b"a", b"a", b"a", b"\xff"]),
            }
        )
    )
    assert (job["accepted"], job["rejected"], job["linesRead"]) == (1, 3, 4)
    assert [
        (each["line"], each["errors"][0]["field"], each["errors"][0]["code"])
        for each in rejects(workspace.client, job)
    ] == [(2, "at", "not_a_time"), (3, "who", "wrong_type"), (4, "", "not_utf8")]


def test_bytes_that_are_not_utf8_reject_only_rows_that_use_them(import_parquet):
    columns = {**ROW, "digest": pa.array([b"\xff"]), "nested": [{"a": 1}]}
    ignored = [{"column": name, "use": "ignored"} for name in ("digest", "nested")]
    query = {"mapping": json.dumps({"columns": [*NAMES, *ignored]})}
    assert import_parquet(parquet(columns), **query)["accepted"] == 1
    assert import_parquet(parquet(columns))["rejected"] == 1


def test_the_names_of_columns_have_a_limit(import_parquet):
    names = ["c" * 3_000 + str(index) for index in range(500)]
    job = import_parquet(parquet({**ROW, **{name: [1] for name in names}}))
    assert (job["state"], "too long" in job["error"]) == ("failed", True)


def test_an_import_does_not_stop_the_dry_run_of_another_file(workspace, monkeypatch):
    monkeypatch.setattr(reader, "_free_imports", reader.BoundedSemaphore(1))
    assert reader._free_imports.acquire(blocking=False)
    columns = {"created": [1714557600], "user_id": [7], "event": ["a"]}
    query = {"format": "parquet", "dryRun": "true"}
    job = upload(workspace, parquet(columns), reader.MEDIA_TYPE, **query).json()
    checked(workspace.client, job)
    summary = workspace.client.get(f"/api/imports/{job['id']}/summary").json()
    assert (summary["events"], summary["error"]) == (1, None)


def test_columns_that_are_fields_of_an_event_need_no_mapping(workspace, services):
    columns = {
        "timestamp": [AT], "name": ["bought"], "userId": ["7"],
        "properties.amount": [0], "properties": [{"plan": "pro"}],
    }  # fmt: skip
    query = {"format": "parquet", "dryRun": "true"}
    job = upload(workspace, parquet(columns), reader.MEDIA_TYPE, **query).json()
    path = f"/api/imports/{job['id']}"
    checked(workspace.client, job)
    summary = workspace.client.get(f"{path}/summary").json()
    assert (summary["mapping"], summary["events"], summary["error"]) == (None, 1, None)
    assert workspace.client.post(f"{path}/start").status_code == 200
    assert finished(workspace.client, job["id"])["accepted"] == 1
    [text] = stored(services, workspace.website_id, "properties")
    assert json.loads(text) == {"amount": 0, "plan": "pro"}


def test_a_dry_run_guesses_the_mapping(workspace):
    columns = {"created": [1714557600, 1714557660], "user_id": [7, 8], "event": ["a", "b"]}
    query = {"format": "parquet", "dryRun": "true"}
    job = upload(workspace, parquet(columns), reader.MEDIA_TYPE, **query).json()
    checked(workspace.client, job)
    summary = workspace.client.get(f"/api/imports/{job['id']}/summary").json()
    assert summary["sample"]["rows"] == [["1714557600", "7", "a"], ["1714557660", "8", "b"]]
    assert [each["use"] for each in summary["mapping"]["columns"]] == ["time", "user", "event"]
    assert summary["events"] == 2


MANY = {"at": [AT] * 5_000, "who": list(range(5_000)), "what": ["a"] * 5_000}


@cases(
    ("content", "reason"),
    [
        (b"PAR1", "damaged"),
        (parquet(ROW)[:-20], "damaged"),
        (parquet(ROW)[:40] + b"\0" * 60 + parquet(ROW)[100:], "damaged"),
        (parquet({**ROW, **{f"c{number}": [1] for number in range(1_001)}}), "1,000 columns"),
        (parquet({"at": [AT]}), "does not have the column 'who'"),
        (parquet({name: values[:0] for name, values in MANY.items()}), "is empty"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(import_parquet, content, reason):
    job = import_parquet(content)
    assert (job["state"], job["accepted"]) == ("failed", 0)
    assert reason in job["error"]


def test_a_file_of_another_kind_is_refused(workspace):
    for content, reason in ((b"a word\n" * 999, "as it is"), (b"a,b\n1,2\n" * 999, "format csv")):
        answer = upload(workspace, content, reader.MEDIA_TYPE, format="parquet")
        assert problem(answer) == (415, "not_parquet")
        assert reason in answer.json()["detail"]


def test_a_small_file_that_needs_much_memory_fails_alone(import_parquet):
    """A run-length encoded page of a few bytes stands for gigabytes."""
    text = "x" * 16_000_000
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int32()), pa.array([text]))
    content = parquet({"at": [AT] * 200, "who": [7] * 200, "what": ["a"] * 200, "p": column})
    assert len(content) < 1_000_000
    job = import_parquet(content)
    assert (job["accepted"], job["state"]) == (0, "failed")
    assert import_parquet(parquet(ROW))["accepted"] == 1


def maps(rows, keys):
    """A file of some kilobytes: each row has a map of equal keys, which become one."""
    cell = pa.array([[("k", 1)] * keys], pa.map_(pa.string(), pa.int8()))
    column = pa.concat_arrays([cell] * 100)
    table = pa.table({"at": [AT] * 100, "who": [7] * 100, "what": ["a"] * 100, "p": column})
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, compression="zstd") as writer:
        for _ in range(rows // 100):
            writer.write_table(table)
    return out.getvalue()


def test_a_row_with_too_many_values_is_rejected_before_they_are_read(import_parquet, workspace):
    job = import_parquet(maps(100, 20_000))
    assert (job["accepted"], job["rejected"]) == (0, 100)
    [error] = rejects(workspace.client, job)[0]["errors"]
    assert error["code"] == "too_many_values"
    assert import_parquet(maps(100, 4_000))["accepted"] == 100


def test_the_processor_time_of_a_file_has_a_limit(import_parquet, monkeypatch, tmp_path):
    """A process with two seconds instead of twenty."""
    python = tmp_path / "python"
    program = (
        "import sys; from penstock.events.imports.formats import parquet_process as p;"
        "p._MIN_CPU_S = 2; p.main(sys.argv[1], int(sys.argv[2]), sys.stdout.buffer)"
    )
    python.write_text(f"#!/bin/sh\nshift 2\nexec {sys.executable} -c '{program}' \"$@\"\n", "utf-8")
    python.chmod(0o700)
    monkeypatch.setattr(reader.sys, "executable", str(python))
    job = import_parquet(maps(2_000, 4_900))
    assert (job["state"], "too much processor time" in job["error"]) == ("failed", True)


@pytest.mark.parametrize("limits", [{"max_import_inflated_bytes": 10_000}])
def test_the_rows_of_a_file_have_a_limit(import_parquet):
    """Run-length encoding stores a billion equal rows in a few bytes."""
    content = parquet(MANY)
    job = import_parquet(content)
    assert (job["state"], "more than 10,000 bytes" in job["error"]) == ("failed", True)


def test_a_process_that_ends_early_leaves_the_import_failed(import_parquet, monkeypatch):
    monkeypatch.setattr(reader.sys, "executable", "/bin/false")
    job = import_parquet(parquet(ROW))
    assert (job["state"], "may be damaged" in job["error"]) == ("failed", True)


def varint(value):
    """Encode an integer as the metadata of Parquet does."""
    encoded, rest = b"", value << 1 if value >= 0 else (-value << 1) - 1
    while rest >= 0x80:
        encoded, rest = encoded + bytes([rest & 0x7F | 0x80]), rest >> 7
    return encoded + bytes([rest])


def claiming(rows):
    """A file of five rows whose metadata states another number."""
    content = parquet({"at": [AT] * 5, "who": [7] * 5, "what": ["a"] * 5})
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    before, number, after = content[start:-8].partition(b"\x16" + varint(5) + b"\x19")
    assert number
    metadata = before + b"\x16" + varint(rows) + b"\x19" + after
    return content[:start] + metadata + len(metadata).to_bytes(4, "little") + content[-4:]


@cases(
    ("rows", "reason"),
    [
        (5, None),  # the first, because rows before damage may be stored
        *((3, "damaged"), (9, "damaged"), (2**40, "100,000,000 rows")),
        pytest.param(-1, "damaged", marks=pytest.mark.full("other numbers")),
        pytest.param(0, "damaged", marks=pytest.mark.full("other numbers")),
    ],
)
def test_the_number_of_rows_that_a_file_states_is_not_trusted(import_parquet, rows, reason):
    """The file has five."""
    job = import_parquet(claiming(rows))
    if reason is None:
        assert job["accepted"] == rows, job
    else:
        assert (job["state"], reason in job["error"]) == ("failed", True), job


def test_the_process_gets_no_secrets(import_parquet, monkeypatch, tmp_path):
    python, environment = tmp_path / "python", tmp_path / "environment"
    python.write_text(f'#!/bin/sh\nenv >{environment}\nexec {sys.executable} "$@"\n', "utf-8")
    python.chmod(0o700)
    for name in ("PENSTOCK_SECRET_KEY", "AWS_SECRET_ACCESS_KEY", "ANY_OTHER"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setattr(reader.sys, "executable", str(python))
    assert import_parquet(parquet(ROW))["accepted"] == 1
    variables = environment.read_text("utf-8")
    assert "PATH=" in variables
    assert "hidden" not in variables


def test_files_wait_for_a_free_process(import_parquet, monkeypatch):
    monkeypatch.setattr(reader, "_free_imports", reader.BoundedSemaphore(1))
    first_rows = {name: values[:500] for name, values in MANY.items()}
    assert import_parquet(parquet(first_rows))["accepted"] == 500
    assert import_parquet(parquet(ROW))["accepted"] == 1


def test_row_groups_are_read_in_order(import_parquet, services, workspace):
    names = [f"e{number}" for number in range(600)]
    out = io.BytesIO()
    table = pa.table({"at": [AT] * 600, "who": [7] * 600, "what": names})
    pq.write_table(table, out, row_group_size=100)
    assert import_parquet(out.getvalue())["accepted"] == 600
    assert sorted(stored(services, workspace.website_id)) == sorted(names)
