"""Compressed files: gzip, Zstandard, ZIP archives of both, UTF-16, and what is hostile in them."""

import gzip
import io
import os
import struct
import zipfile
import zlib

import pytest
from backports import zstd

from penstock.events.imports.formats import unpacking
from tests.answers import problem
from tests.cases import cases
from tests.events.conftest import ndjson, upload
from tests.events.imports.conftest import counts, line, rejects, stored

NO_CONTENT = b"\x00\x00\x00\xff\xff"
"""A deflate block without content."""


def archive(*files, method=zipfile.ZIP_DEFLATED):
    """A ZIP archive. files: names and contents."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as target:
        for name, data in files:
            target.writestr(name, data)
    return content.getvalue()


def events(*numbers):
    return ndjson(map(line, numbers))


PACKED = {
    "zstd": zstd.compress(events(1, 2)),
    "zstd-frames": zstd.compress(events(1)) + zstd.compress(b"") + zstd.compress(events(2)),
    "zip": archive(("a.ndjson", events(1)), ("b.ndjson", events(2))),
    "stored": archive(("a.ndjson", events(1, 2)), method=zipfile.ZIP_STORED),
    "no-newline": archive(("a.ndjson", events(1).rstrip()), ("b.ndjson", events(2).rstrip())),
    "zip-of-gzip": archive(("7/", b""), ("7/a.gz", gzip.compress(events(1, 2)))),
    "zip-of-zstd": archive(("a.zst", zstd.compress(events(1))), ("b", zstd.compress(events(2)))),
    "from-macos": archive(("__MACOSX/._a", b"\0\1"), ("a.ndjson", events(1, 2))),
    "with-other-files": archive(
        (".DS_Store", b"\0\0Bud1"),
        ("a/README.md", b"# Events"),
        ("readme", b"x"),
        ("a/._b.ndjson", b"\0"),
        ("Thumbs.db", b"\0"),
        ("a/b.ndjson", events(1)),
        ("readme.csv.ndjson", events(2)),
        ("LICENSE.txt", b"MIT"),
    ),
    "byte-order-marks": archive(
        ("a", b"\xef\xbb\xbf" + events(1)), ("b", b"\xef\xbb\xbf" + events(2))
    ),
    "joined-with-marks": b"\xef\xbb\xbf" + events(1) + b"\xef\xbb\xbf" + events(2),
    "utf-16": events(1, 2).decode().encode("utf-16"),
    "utf-16-be": b"\xfe\xff" + events(1, 2).decode().encode("utf-16-be"),
    "gzip-of-utf-16": gzip.compress(events(1, 2).decode().encode("utf-16")),
    "zip-of-utf-16": archive(("a.txt", events(1, 2).decode().encode("utf-16"))),
}


@pytest.mark.usefixtures("warehouse")
@cases("name", PACKED)
def test_each_event_of_a_packed_file_is_imported(run_import, workspace, services, name):
    job = run_import(PACKED[name], media_type="text/plain")
    assert (job["state"], job["linesRead"], job["rejected"]) == ("done", 2, 0)
    # The events of each file are those of the first, so later ones are duplicates.
    assert job["accepted"] + job["duplicates"] == 2
    assert stored(services, workspace.website_id) == ["step 1", "step 2"]


@pytest.mark.usefixtures("warehouse")
def test_a_large_archive_is_read_whole_and_equals_the_plain_file(run_import):
    numbers = [
        ndjson(line(number, properties={"n": os.urandom(20).hex()}) for number in range(1_500))
        for _ in range(3)
    ]
    packed = archive(*((f"{n}.gz", gzip.compress(part, 1)) for n, part in enumerate(numbers)))
    job = run_import(packed, media_type="application/zip")
    assert (job["state"], counts(job)) == ("done", (4_500, 4_500, 0, 0))
    assert counts(run_import(b"".join(numbers))) == (4_500, 0, 4_500, 0)


@pytest.mark.usefixtures("warehouse")
def test_characters_outside_ascii_and_in_two_units_survive_utf_16(run_import, workspace, services):
    body = '{"type": "event", "name": "é😀", "timestamp": 1588327200000, "visitorId": "v"}\n'
    run_import((body * 3_000).encode("utf-16"))
    assert set(stored(services, workspace.website_id)) == {"é😀"}


def test_a_lone_surrogate_in_utf_16_rejects_its_line_only(run_import, client):
    bad = events(2).decode().replace("step", "st\ud800p").encode("utf-16-le", "surrogatepass")
    body = b"\xff\xfe" + events(1).decode().encode("utf-16-le") + bad
    job = run_import(body)
    assert (job["accepted"], job["rejected"]) == (1, 1)
    assert [reject["line"] for reject in rejects(client, job)] == [2]


@cases(
    ("content", "reason"),
    [
        (lambda: archive(("inner.zip", ZIP)), "contains the archive 'inner.zip'. Unpack it"),
        (lambda: archive(("inner.zip", ZIP), method=zipfile.ZIP_STORED), "archive 'inner.zip'"),
        (lambda: archive(("[Content_Types].xml", b"<")), "Save its sheet as CSV in UTF-8"),
    ],
)
def test_an_archive_without_data_is_refused_at_the_upload(workspace, content, reason):
    answer = upload(workspace, content(), "application/zip")
    assert problem(answer) == (415, "not_ndjson")
    assert reason in answer.json()["detail"]


def with_crc(content, crc):
    """A ZIP archive with another hash of its first file."""
    at = content.index(b"PK\x01\x02") + 16
    return content[:at] + struct.pack("<L", crc) + content[at + 4 :]


def with_flag(content, flag):
    at = content.index(b"PK\x01\x02") + 8
    return content[:at] + struct.pack("<H", flag) + content[at + 2 :]


ZIP = archive(("a.ndjson", events(*range(50))))


@cases(
    ("content", "reason"),
    [
        (zstd.compress(events(*range(50)))[:-20], "truncated"),
        (zstd.compress(events(1)) + b"no frame", "damaged"),
        (
            archive(("a/.DS_Store", b"x"), ("a/b.zip", ZIP)),
            "the archive 'a/b.zip'",
        ),
        (archive((".DS_Store", b"x"), ("xl/[", b"y"), ("[Content_Types].xml", b"<")), "a workbook"),
        (ZIP[:-10], "damaged"),
        (ZIP[: len(ZIP) // 2], "damaged"),
        (with_crc(ZIP, 1), "damaged"),
        (with_flag(ZIP, 1), "encrypted"),
        (archive(("a.ndjson", events(1)), method=zipfile.ZIP_BZIP2), "Deflate"),
        (b"\xff\xfe" + events(1).decode().encode("utf-16-le") + b"a", "truncated"),
    ],
)
def test_a_file_that_cannot_be_unpacked_fails_with_the_reason(run_import, content, reason):
    job = run_import(content, media_type="text/plain")
    assert job["state"] == "failed"
    assert reason in job["error"]


def with_window(log):
    """An event as a Zstandard frame that asks for a window of 2^log bytes."""
    options = {zstd.CompressionParameter.window_log: log}
    compressor = zstd.ZstdCompressor(options=options)
    return compressor.compress(events(1)) + compressor.flush()


def test_a_zstandard_window_may_have_8_mib(run_import):
    assert run_import(with_window(23), media_type="application/zstd")["accepted"] == 1


@pytest.mark.parametrize("log", [24, 27])
def test_a_larger_zstandard_window_is_refused_with_the_way_out(run_import, log):
    packed = with_window(log)
    for content in (packed, archive(("a.zst", packed))):
        job = run_import(content, media_type="text/plain")
        assert (job["state"], job["accepted"]) == ("failed", 0)
        assert "more than 8 MiB" in job["error"]
        assert "without --ultra and --long" in job["error"]


@pytest.mark.parametrize("limits", [{"max_import_inflated_bytes": 1_000_000}])
@cases(
    "bomb",
    [
        zstd.compress(b"{" + b"\0" * 10_000_000),
        archive(("a", b"{" + b"\0" * 10_000_000)),
        archive(("a.gz", gzip.compress(b"{" + b"\0" * 10_000_000))),
        archive(*((f"{n}", b"{" + b"\0" * 300_000 + b"\n") for n in range(10))),
    ],
)
def test_what_is_too_large_after_decompression_fails_the_import(run_import, bomb):
    job = run_import(bomb, media_type="text/plain")
    assert job["state"] == "failed"
    assert "1,000,000 bytes after decompression" in job["error"]


def test_an_archive_of_too_many_files_fails_before_its_directory_is_read(run_import, monkeypatch):
    monkeypatch.setattr(unpacking, "_MAX_DIRECTORY_BYTES", 100_000)
    many = archive(*((f"{number:060}", b"{}") for number in range(1_000)))
    job = run_import(many, media_type="application/zip")
    assert (job["state"], job["error"]) == (
        "failed",
        "The ZIP archive has too many files; split it.",
    )


def crafted_archive(stream, content, *, entries=1, offset=None):
    """A ZIP archive with one deflate stream. entries: how often its directory lists the stream.
    offset: where the directory says that the stream begins, in 64 bits.
    """
    sizes = (zlib.crc32(content), len(stream), len(content))
    file = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, *sizes, 1, 0) + b"a" + stream
    extra = b"" if offset is None else struct.pack("<2HQ", 1, 8, offset)
    stated = 0 if offset is None else 0xFFFFFFFF
    lengths = (1, len(extra), 0, 0, 0, 0, stated)
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 0, *sizes, *lengths)
    directory = (entry + b"a" + extra) * entries
    number = min(entries, 0xFFFF)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, number, number, len(directory), len(file), 0)
    return file + directory + end


def deflated(content):
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(content) + deflate.flush()


@cases("offset", [2**31, 2**60, 2**63, 2**64 - 1])
def test_an_archive_that_points_beyond_its_end_is_damaged(run_import, offset):
    content = crafted_archive(deflated(events(1)), events(1), offset=offset)
    job = run_import(content, media_type="application/zip")
    assert (job["state"], job["accepted"]) == ("failed", 0)
    assert "damaged" in job["error"]
    assert run_import([line(2)])["state"] == "done"  # the workspace's next import is not delayed


@cases("field", ["size", "offset", "end"])
def test_a_directory_beyond_the_end_of_the_archive_is_damaged(run_import, field):
    content = crafted_archive(deflated(events(1)), events(1))
    end = content.rindex(b"PK\5\6")
    values = {"size": 0, "offset": 0, "end": 0, field: 2**60}
    end_64 = struct.pack(
        "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, values["size"], values["offset"]
    )
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, values["end"] or end, 1)
    limits = struct.pack("<4s4H2LH", b"PK\5\6", *[0xFFFF] * 4, *[0xFFFFFFFF] * 2, 0)
    job = run_import(content[:end] + end_64 + locator + limits, media_type="application/zip")
    assert job["state"] == "failed"
    assert run_import([line(2)])["state"] == "done"


def test_a_directory_that_lists_the_same_bytes_many_times_is_damaged(run_import):
    content = crafted_archive(NO_CONTENT * 200 + deflated(events(1)), events(1), entries=2)
    job = run_import(content, media_type="application/zip")
    assert (job["state"], job["accepted"]) == ("failed", 0)
    assert "damaged" in job["error"]


@pytest.mark.parametrize("size", [0, 1, 10**6])
def test_an_archive_that_states_another_size_is_damaged(run_import, size):
    content = archive(("a.ndjson", events(1)))
    at = content.index(b"PK\1\2") + 24
    job = run_import(
        content[:at] + struct.pack("<L", size) + content[at + 4 :], media_type="application/zip"
    )
    assert job["state"] == "failed"
    assert "damaged" in job["error"]


def test_a_file_without_a_name_is_imported(run_import):
    stream = deflated(events(1))
    sizes = (zlib.crc32(events(1)), len(stream), len(events(1)))
    file = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, *sizes, 0, 0) + stream
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 0, *sizes, *[0] * 7)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(file), 0)
    job = run_import(file + entry + end, media_type="application/zip")
    assert (job["state"], job["accepted"], job["error"]) == ("done", 1, None)


def test_a_directory_of_very_many_files_is_refused_before_it_is_read(run_import):
    """It is as large as the archive, so an upload of a few megabytes could list 170,000 files."""
    content = crafted_archive(deflated(events(1)), b"", entries=170_000)
    job = run_import(content, media_type="application/zip")
    assert (job["state"], job["error"]) == (
        "failed",
        "The ZIP archive has too many files; split it.",
    )


def test_a_million_blocks_without_content_are_read_in_short_steps(tmp_path):
    """A deflate stream in an archive may contain any number of empty blocks."""
    content = crafted_archive(NO_CONTENT * 10_000_000 + deflated(events(1)), events(1))
    path = tmp_path / "a.zip"
    path.write_bytes(content)
    pieces = [piece for piece, _ in unpacking.unpacked(path, 10**9)]
    assert b"".join(pieces) == events(1)
    assert len(pieces) > 3
