"""Imports of CSV: columns, quoting, separators, and what ends or rejects a row."""

import gzip
import io
import json
import zipfile
from itertools import product

import pytest

from penstock.events.imports.formats import csv_rows
from tests.answers import problem
from tests.cases import cases, full_except
from tests.events.conftest import imported, upload
from tests.events.imports.conftest import counts, rejects, stored

HEADER = "timestamp,name,userId"


@pytest.fixture
def import_csv(run_import):
    def run(text, **options):
        body = text if isinstance(text, bytes) else text.encode()
        return run_import(body, media_type="text/csv", **options)

    return run


def rows(*names):
    """A file with an event of each name."""
    lines = [f"2024-05-01T10:00:{second:02d}Z,{name},u" for second, name in enumerate(names)]
    return "\n".join([HEADER, *lines]) + "\n"


@pytest.mark.usefixtures("warehouse")
def test_columns_are_fields_and_properties_and_empty_cells_are_left_out(
    import_csv, workspace, services
):
    job = import_csv(
        "timestamp,type,name,path,visitorId,userId,country,amount,currency,transactionId,"
        "properties.plan,properties.first step,properties\n"
        "2024-05-01T10:00:00Z,,signed_up,,,u,DE,,,,pro,,\n"
        "1714557601000,pageview,,/pricing,v,,,,,,,,\n"
        '2024-05-01T10:00:02Z,transaction,bought,,,u,,9.5,EUR,t-1,007,,"{""step"": 3}"\n'
    )
    assert (job["state"], counts(job)) == ("done", (4, 3, 0, 0))
    columns = "name, toString(kind), country, properties"
    assert stored(services, workspace.website_id, columns) == [
        ("signed_up", "event", "DE", '{"plan":"pro"}'),
        ("/pricing", "pageview", "", ""),
        (
            "bought",
            "transaction",
            "",
            '{"step":3,"plan":"007","amount":9.5,"currency":"EUR","transactionId":"t-1"}',
        ),
    ]


FORMS = (
    *((",", "\n", ""), (";", "\r\n", "\ufeff"), ("\t", "\n", "\ufeff\r\n\n")),
    *(("|", "\n", ""), (";", "\r\n", "\ufeffsep=;\r\n"), ("^", "\n", '\n"sep=^"\n\n')),
)
"""Separators, line ends and starts of files, each of which `make test` reads once."""


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    ("separator", "newline", "start"),
    full_except(
        FORMS,
        (
            *product((",", ";", "\t"), ("\n", "\r\n"), ("", "\ufeff", "\ufeff\r\n\n")),
            *FORMS[3:],
        ),
        "each separator with each line end",
    ),
    ids=repr,
)
def test_separators_line_ends_and_a_byte_order_mark_do_not_matter(
    import_csv, workspace, services, separator, newline, start
):
    text = (rows("a", '"b, ""c""; d"', "") + rows("x").splitlines()[1]).replace("\n", newline)
    outside = text.replace('"b, ""c""; d"', "QUOTED").replace(",", separator)
    job = import_csv(start + outside.replace("QUOTED", '"b, ""c""; d"'), zipped=True)
    assert (job["accepted"], job["rejected"]) == (3, 1)
    assert sorted(stored(services, workspace.website_id)) == ["a", 'b, "c"; d', "x"]


@pytest.mark.usefixtures("warehouse")
def test_the_header_of_the_next_file_of_an_archive_is_no_row(workspace, services):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in "ab":
            archive.writestr(f"{name}.csv", "\ufeff" + rows(name).replace("\n", "\r\n").rstrip())
    job = imported(workspace, content.getvalue(), "application/zip", format="csv")
    assert (job["state"], counts(job)) == ("done", (4, 2, 0, 0))
    assert stored(services, workspace.website_id) == ["a", "b"]


@pytest.mark.usefixtures("warehouse")
def test_a_row_has_the_line_in_which_it_begins(import_csv, client, workspace, services):
    row = '2024-05-01T10:00:00Z,a,u,"1\n\n  \n2"'
    job = import_csv(f"{HEADER},properties.text\n\n{row}\nnever,b,u,\n")
    assert (counts(job), job["emptyLines"]) == ((7, 1, 0, 1), 1)
    [reject] = rejects(client, job)
    assert (reject["line"], reject["errors"][0]["field"]) == (7, "timestamp")
    assert json.loads(reject["excerpt"])["name"] == "b"
    assert stored(services, workspace.website_id, "properties") == ['{"text":"1\\n\\n  \\n2"}']


def test_the_same_file_again_stores_nothing_and_equal_rows_are_events_of_their_own(import_csv):
    text = rows("a", "b") + rows("a").splitlines()[1]
    assert counts(import_csv(text)) == (4, 3, 0, 0)
    assert counts(import_csv(text)) == (4, 0, 3, 0)


FAULTY: list[tuple[str | bytes, str, str]] = [
    ('2024-05-01T10:00:00Z,"a"b,u', "not_csv", ""),
    ("2024-05-01T10:00:00Z,a\rb,u", "not_csv", ""),
    ("2024-05-01T10:00:00Z,a,u,,,extra", "too_many_cells", ""),
    (b"2024-05-01T10:00:00Z,\xff,u", "not_utf8", ""),
    ("2024-05-01T10:00:00Z,a,u,[1]", "wrong_type", "properties"),
    ("2024-05-01T10:00:00Z,a,u,{", "wrong_type", "properties"),
    ("2024-05-01T10:00:00Z,a,u," + "x" * 70_000, "too_large", ""),
    ("2024-05-01T10:00:00Z,,u", "required", "name"),
    ("2024-05-01T10:00:00Z,a", "identity_required", "visitorId"),
]


def test_a_faulty_row_costs_no_other_row(import_csv, client):
    good = b"2024-05-01T10:00:00Z,good,u"
    lines = [HEADER.encode() + b",properties", good]
    for row, _, _ in FAULTY:
        lines += [row if isinstance(row, bytes) else row.encode(), good]
    job = import_csv(b"\n".join(lines))
    assert counts(job) == (len(lines), len(FAULTY) + 1, 0, len(FAULTY))
    for index, (reject, (row, code, field)) in enumerate(
        zip(rejects(client, job), FAULTY, strict=True), 1
    ):
        assert (reject["line"], reject["errors"][0]["code"]) == (2 * index + 1, code), row
        assert reject["errors"][0]["field"] in (field, "userId"), row


def test_a_quote_that_is_not_closed_is_never_read_as_further_rows(import_csv, client):
    short = import_csv(rows("a", '"b', "c", "d"))
    assert counts(short) == (5, 1, 0, 1)
    assert [reject["line"] for reject in rejects(client, short)] == [3]
    long = import_csv(rows("a", '"b', *["c"] * 10_000))
    assert (long["state"], long["rejected"]) == ("failed", 0)
    assert "line 3 is too long; perhaps a quote is not closed" in long["error"]


@cases(
    ("header", "advice"),
    [
        ("timestamp,name", "neither visitorId nor userId"),
        ("name,userId", "the column timestamp"),
        ("timestamp,userId,plan", "name it properties.plan"),
        ("timestamp,userId,userId", "a column twice"),
        ("timestamp,,userId", "name it properties.key"),
        ('timestamp,"userId', "not valid CSV"),
        ("timestamp userId", "timestamp userId"),
    ],
)
def test_a_header_that_names_no_event_is_rejected_at_the_upload(
    workspace, settings, header, advice
):
    for compress in (bytes, gzip.compress):
        answer = upload(workspace, compress(f"{header}\n1,2,3\n".encode()), "text/csv")
        assert problem(answer) == (415, "not_csv")
        assert advice in answer.json()["detail"]
    assert list((settings.data / "imports").iterdir()) == []


def test_a_header_that_the_upload_cannot_see_fails_the_import(import_csv):
    late = import_csv("\n" * 100_000 + "timestamp,plan\n", zipped=True)
    assert (late["state"], "properties.plan" in late["error"]) == ("failed", True)
    only = import_csv(HEADER)
    assert (only["state"], only["error"]) == ("failed", "The file has a header and no events.")
    nothing = import_csv(b"")
    assert (nothing["state"], nothing["error"]) == ("failed", "The file is empty.")


@pytest.mark.usefixtures("warehouse")
def test_many_empty_lines_or_gzip_members_inside_a_file_are_bounded(import_csv, monkeypatch):
    monkeypatch.setattr(csv_rows, "_MAX_STEPS_IN_ROW", 3)
    lines = import_csv(gzip.compress(f"{HEADER}\n".encode() + b"\n" * 3_000_000, 1))
    assert (lines["state"], "1,000,000 empty lines" in lines["error"]) == ("failed", True)
    quoted = gzip.compress(f'{HEADER}\n2024-05-01T10:00:00Z,"\n'.encode())
    members = import_csv(quoted + gzip.compress(b"") * 5_000)
    assert (members["state"], "perhaps a quote" in members["error"]) == ("failed", True)
