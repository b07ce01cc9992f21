"""Links as CSV: what is exported is imported unchanged; all rows or none; faults by row."""

import csv
from io import StringIO

import pytest

from penstock.base.spreadsheets import decode_cell, encode_cell, is_formula
from penstock.links.management.csv_file import COLUMNS, MAX_ROWS
from tests.answers import body_of
from tests.links.conftest import LINKS
from tests.records import new_website
from tests.waiting import eventually

CSV = f"{LINKS}/csv"


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def upload(client):
    """Uploads rows or a text; returns the answer."""

    def upload(content, *, dry_run=False, media="text/csv", by=client):
        body = content if isinstance(content, bytes) else as_csv(content)
        params = {"dryRun": "true"} if dry_run else {}
        return by.post(CSV, params=params, content=body, headers={"Content-Type": media})

    return upload


def as_csv(rows):
    file = StringIO()
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def rows_of(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(StringIO(answer.content.decode(), newline="")))


def counts(answer):
    record = body_of(answer)
    return tuple(record[name] for name in ("created", "updated", "unchanged", "faulty"))


def new(app_id, slug, **fields):
    return {"websiteId": app_id, "slug": slug, "name": "A", "destinationPath": "/a"} | fields


def listed(client):
    return {record["slug"]: record for record in client.get(LINKS).json()["data"]}


@pytest.mark.every_database
def test_an_exported_file_changes_nothing_when_it_is_imported(client, make_link, upload):
    make_link(
        name='=HYPERLINK("https://evil.example","a")',
        fallbackUrl="https://www.example.com/ü",
        utmSource="'+1",
        utmMedium="a,b\u2028;c",
        utmCampaign="''-x",
        tags=["eu", "früh"],
        expiresAt="2299-01-01T00:00:00.123Z",
        expiredUrl="https://www.example.com/",
    )
    client.patch(LINKS, json={"id": make_link(name="'quoted'")["id"], "isActive": False})
    before = listed(client)
    exported = client.get(CSV)
    for row in rows_of(exported):
        assert tuple(row) == COLUMNS
        assert not any(is_formula(cell) for cell in row.values())
        assert row["hostedUrl"] == before[row["slug"]]["hostedUrl"]
    assert counts(upload(exported.content)) == (0, 0, 2, 0)
    assert counts(upload(b"\xef\xbb\xbf" + exported.content)) == (0, 0, 2, 0)
    assert listed(client) == before


@pytest.mark.parametrize("text", ["", "a", "=a", "'=a", "''=a", "'a", "'", " @a", "+", "-1", "\t"])
def test_every_text_comes_back_from_a_cell_that_runs_nothing(text):
    assert decode_cell(encode_cell(text)) == text
    assert not is_formula(encode_cell(text))


def test_a_dry_run_says_what_an_upload_does_and_changes_nothing(client, app_id, make_link, upload):
    same, other = make_link(), make_link()
    rows = [
        new(app_id, "fresh", isActive="FALSE", tags="Eu, spring"),
        new(app_id, same["slug"], name=same["name"], destinationPath=same["destinationPath"]),
        new(app_id, other["slug"], destinationPath="/b"),
    ]
    for row in rows[1:]:
        row |= {"isActive": "", "tags": ""}
    before = listed(client)
    dry = upload(rows, dry_run=True)
    assert counts(dry) == (1, 1, 1, 0)
    assert listed(client) == before
    real = upload(rows)
    assert real.json() == dry.json() | {"dryRun": False}
    after = listed(client)
    assert (after["fresh"]["isActive"], after["fresh"]["tags"]) == (False, ["eu", "spring"])
    assert after[same["slug"]] == before[same["slug"]]
    assert after[other["slug"]]["destinationPath"] == "/b"
    assert after[other["slug"]]["revision"] == 2
    assert counts(upload(rows)) == (0, 0, 3, 0)


def test_only_the_columns_of_the_file_change(client, make_link, upload, open_link):
    record = make_link(utmSource="news", fallbackUrl="https://www.example.com/1")
    slug = record["slug"]
    assert counts(upload([{"slug": slug, "utmSource": "podcast"}])) == (0, 1, 0, 0)
    assert counts(upload([{"slug": slug, "isActive": "false"}])) == (0, 1, 0, 0)
    assert open_link(slug).status_code == 404
    changed = listed(client)[slug]
    assert (changed["utmSource"], changed["fallbackUrl"]) == ("podcast", record["fallbackUrl"])
    assert counts(upload([{"slug": slug, "utmSource": ""}])) == (0, 1, 0, 0)
    assert listed(client)[slug]["utmSource"] is None


def test_faults_name_row_and_column_and_nothing_is_changed(
    client, other_workspace, app_id, make_link, upload
):
    record = make_link()
    their_app = new_website(other_workspace.client, "Theirs", "mobile")
    theirs = new(their_app, "theirs")
    assert other_workspace.client.post(LINKS, json=theirs).status_code == 201
    plain = dict.fromkeys(("id", "fallbackUrl", "expiresAt", "isActive", "tags"), "")
    rows = [
        new(app_id, "good"),
        new(app_id, "A b"),
        new(app_id, "bad", destinationPath="//evil", fallbackUrl="http://localhost/"),
        new("", "empty", name="", expiresAt="soon"),
        new(app_id, "good"),
        new(app_id, "theirs"),
        new(their_app, "foreign"),
        new(app_id, record["slug"], id="lnk_other"),
        new(app_id, "renamed", id=record["id"]),
        new(app_id, "off", isActive="no", tags="a," + "b" * 51),
        new("", "incomplete"),
    ]
    rows = [plain | row for row in rows]
    dry = upload(rows, dry_run=True)
    assert dry.status_code == 200, dry.text
    assert [(fault["row"], fault["column"], fault["code"]) for fault in dry.json()["faults"]] == [
        (3, "slug", "not_a_slug"),
        (4, "fallbackUrl", "private_host"),
        (4, "destinationPath", "not_a_route"),
        (5, "expiresAt", "not_a_time"),
        (5, "name", "too_short"),
        (6, "slug", "repeated"),
        (7, "slug", "slug_taken"),
        (8, "websiteId", "app_not_found"),
        (9, "id", "read_only"),
        (10, "id", "unknown_link"),
        (11, "tags", "too_long"),
        (11, "isActive", "wrong_type"),
        (12, "websiteId", "required"),
    ]
    assert dry.json()["faulty"] == 10
    before = listed(client)
    refused = upload(rows)
    assert body_of(refused, 422)["errors"][0]["field"] == "rows[3].slug"
    assert len(refused.json()["errors"]) == 13
    assert listed(client) == before


def test_an_exported_file_with_a_link_of_a_deleted_app_changes_nothing(
    client, app_id, make_link, upload
):
    record = make_link()
    assert client.delete(f"/api/settings/websites/{app_id}").status_code == 204
    assert counts(upload(client.get(CSV).content)) == (0, 0, 1, 0)
    [fault] = upload([new(app_id, "late")], dry_run=True).json()["faults"]
    assert (fault["column"], fault["code"]) == ("websiteId", "app_not_found")
    other = upload([{"slug": record["slug"], "websiteId": "web_other"}], dry_run=True).json()
    assert [fault["code"] for fault in other["faults"]] == ["read_only"]


@pytest.mark.parametrize("start", ["", "sep={}\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_and_encodings_of_spreadsheets_are_read(
    app_id, upload, separator, encoding, start
):
    cells = {
        "websiteId": app_id, "slug": "spring", "name": "Frühling",
        "destinationPath": "/offers/42", "tags": '"eu,print"',
    }  # fmt: skip
    rows = [separator.join(cells), separator.join(cells.values())]
    body = (start.format(separator) + "\r\n".join(rows)).encode(encoding)
    assert counts(upload(body, dry_run=True)) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "unknown_column"),
        (b"name\nA\n", "unknown_column"),
        (b"slug,colour\na,red\n", "unknown_column"),
        (b"slug,slug\na,b\n", "repeated"),
        (b'slug\n"a\n', "not_csv"),
        (b'slug\n"a"b\n', "not_csv"),
        (b"slug\na,b\n", "not_csv"),
        (b"slug\n\xff\n", "not_utf8"),
        (b"slug\n" + b"a" * 200_000, "not_csv"),
        (b"slug\n" + b"a\n" * (MAX_ROWS + 1), "too_many"),
    ],
    ids=["empty", "no slug", "unknown column", "repeated column", "open quote", "text after quote",
         "more cells", "not utf-8", "long cell", "too many rows"],
)  # fmt: skip
def test_what_is_no_csv_of_links_is_refused(workspace, upload, body, code):
    for dry_run in (True, False):
        answer = upload(body, dry_run=dry_run)
        assert (answer.status_code, [error["code"] for error in answer.json()["errors"]]) == (
            422,
            [code],
        )


def test_a_file_over_2_mb_or_of_another_type_is_refused(workspace, upload):
    assert upload(b"slug\n" + b"\n" * 2 * 1024 * 1024).status_code == 413
    assert upload(b"slug\n", media="application/json").status_code == 415
    assert upload(b"slug\na\n", by=workspace.browser, dry_run=True).status_code == 200


def test_the_export_is_narrowed_as_the_list_and_shows_no_foreign_links(
    client, other_workspace, make_link
):
    tagged, _ = make_link(tags=["eu"]), make_link()
    assert [row["id"] for row in rows_of(client.get(CSV, params={"tag": "eu"}))] == [tagged["id"]]
    assert rows_of(other_workspace.client.get(CSV)) == []


@pytest.mark.usefixtures("warehouse")
@pytest.mark.every_database
def test_5_000_rows_are_created_at_once_and_clicks_and_history_work(
    client, app_id, upload, open_link
):
    answer = upload([new(app_id, f"bulk-{number}") for number in range(MAX_ROWS)])
    assert counts(answer) == (MAX_ROWS, 0, 0, 0)
    assert counts(upload(client.get(CSV).content)) == (0, 0, MAX_ROWS, 0)
    [record] = client.get(LINKS, params={"search": "bulk-4999"}).json()["data"]
    assert client.get(f"{LINKS}/{record['id']}/history").json()["total"] == 1
    assert open_link("bulk-4999").status_code == 200
    eventually(lambda: client.get(f"{LINKS}/{record['id']}").json()["stats"]["clicks"] == 1)
