"""Small files that hold many values: what a line and a batch may have, in every format."""

import json
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from backports import zstd

from penstock.base.event_limits import MAX_EVENT_BYTES, MAX_EVENT_VALUES
from penstock.events.imports import worker
from tests.events.conftest import imported, ndjson
from tests.events.imports.conftest import counts, line, rejects
from tests.events.imports.exported import parquet

AT, AT_S = "2024-05-01T10:00:00Z", 1714557600
MAPPING = {
    "columns": [
        {"column": "at", "use": "time", "unit": "text"},
        {"column": "who", "use": "user"},
        {"column": "what", "use": "event"},
        {"column": "more", "use": "property", "type": "json"},
    ]
}


def lists(number):
    """A list with so many empty lists, in three bytes each."""
    return [[]] * number


FEW, MANY = {"p": lists(9)}, {"p": lists(MAX_EVENT_VALUES)}


def table(properties):
    cell = json.dumps(properties).replace('"', '""')
    return f'timestamp,name,visitorId,properties\n{AT},a,v,"{cell}"\n'.encode()


def mapped_table(properties):
    cell = json.dumps(properties).replace('"', '""')
    return f'at,who,what,more\n{AT},v,a,"{cell}"\n'.encode()


def parquet_of(properties):
    column = pa.array([properties["p"]], pa.list_(pa.list_(pa.int64())))
    return parquet({"timestamp": [AT], "name": ["a"], "visitorId": ["v"], "properties.p": column})


def posthog(properties, **more):
    return {"event": "a", "distinct_id": "v", "timestamp": AT, "properties": properties, **more}


FILES = {
    "ndjson": lambda properties: ndjson([line(properties=properties)]),
    "csv": table,
    "csv with a mapping": mapped_table,
    "parquet": parquet_of,
    "mixpanel": lambda properties: ndjson(
        [{"event": "a", "properties": {"time": AT_S, "distinct_id": "v", **properties}}]
    ),
    "posthog": lambda properties: ndjson([posthog(properties)]),
    "posthog as text": lambda properties: ndjson([posthog(json.dumps(properties))]),
    "amplitude": lambda properties: ndjson(
        [
            {
                "event_type": "a", "device_id": "v", "event_time": "2024-05-01 10:00:00",
                "event_properties": properties,
            }
        ]
    ),
    "segment": lambda properties: ndjson(
        [
            {
                "type": "track", "event": "a", "anonymousId": "v", "timestamp": AT,
                "properties": properties,
            }
        ]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_line_with_too_many_values_is_rejected_in_every_format(workspace, name):
    query = {"format": name.split()[0]}
    if "mapping" in name:
        query["mapping"] = json.dumps(MAPPING)

    def read(properties):
        return imported(workspace, FILES[name](properties), "text/plain", **query)

    job = read(FEW)
    assert counts(job) == (job["linesRead"], 1, 0, 0)
    job = read(MANY)
    assert (job["accepted"], job["rejected"]) == (0, 1)
    [reject] = rejects(workspace.client, job)
    [error] = reject["errors"]
    assert "10,000 JSON values" in error["message"]
    assert "too_many_values" in error["code"] or name == "csv with a mapping"


def test_commas_and_brackets_in_a_text_are_not_values(run_import):
    texts = [",[{" * 2_600, '\\",[' * 1_900, "\\" * 3_900 + ",["]
    properties = {f"p{index}": text for index, text in enumerate(texts * 2)}
    assert counts(run_import([line(properties=properties)])) == (1, 1, 0, 0)


@dataclass
class Commits:
    """Records the number of events and claims in each commit of an import."""

    sizes: list[int] = field(default_factory=list)


@pytest.fixture
def commits(services, monkeypatch):
    recorded, submit = Commits(), services.intake.submit_from_thread

    def counted(items):
        recorded.sizes.append(len(items))
        return submit(items)

    monkeypatch.setattr(services.intake, "submit_from_thread", counted)
    return recorded


@pytest.mark.parametrize(
    ("budget", "amount", "properties", "limit"),
    [
        ("_BATCH_VALUES", 2_000, {"p": [0] * 999}, 2),
        ("_BATCH_BYTES", 4_000, {"p": "x" * 1_900}, 2),
        ("_SLICE_S", 0.0, {}, 1),
    ],
)
def test_a_batch_ends_when_its_values_its_bytes_or_its_time_are_spent(
    run_import, commits, monkeypatch, budget, amount, properties, limit
):
    monkeypatch.setattr(worker, budget, amount)
    job = run_import([line(number, properties=properties) for number in range(6)])
    assert counts(job) == (6, 6, 0, 0)
    assert commits.sizes == [limit] * (6 // limit)


def test_a_file_of_24_kb_with_millions_of_values_is_rejected_at_once(run_import):
    text = json.dumps(line(properties={"p": lists(21_700)}), separators=(",", ":")).encode()
    assert 65_000 < len(text) <= MAX_EVENT_BYTES
    packed = zstd.compress((text + b"\n") * 4_000)
    assert len(packed) < 30_000
    job = run_import(packed, media_type="application/zstd")
    assert (job["state"], counts(job)) == ("failed", (4_000, 0, 0, 4_000))
    assert "All 4,000 lines were rejected" in job["error"]
