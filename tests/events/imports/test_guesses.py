"""The mapping that is guessed from the first rows of a table."""

import pytest

from penstock.events.imports.formats.guesses import guess_mapping
from penstock.events.imports.formats.reader import Sample
from penstock.events.imports.formats.schema import Use
from tests.cases import cases


def guess(header, *rows):
    """The guess for a table, written as `column: use unit format name type`, without what is
    absent.
    """
    mapping = guess_mapping(Sample(header, rows))
    return {each.column: described(each) for each in mapping.columns}


def described(column):
    parts = (column.use, column.unit, column.format, column.name, column.type, column.decimal)
    return " ".join(str(part) for part in parts if part is not None)


def test_a_table_of_orders_is_guessed_completely():
    header = ("created", "customer_id", "action", "order_id", "total", "plan", "new", "extra", "")
    mapping = guess_mapping(
        Sample(
            header,
            [
                ("1714557600", "17", "checkout_started", "5", "9.50", "pro", "true", "[1]", "0"),
                ("1714557660", "17", "order_paid", "5", "10", "", "false", '{"a": 1}', "1"),
            ],
        )
    )
    assert {each.column: described(each) for each in mapping.columns} == {
        "created": "time seconds",
        "customer_id": "user",
        "action": "event",
        "order_id": "attempt",
        "total": "property number",
        "plan": "property",
        "new": "property boolean",
        "extra": "property json",
        "": "ignored",
    }
    assert mapping.gaps() == []


@pytest.mark.parametrize(
    ("values", "written"),
    [
        (("1714557600", "1714557601.5"), "seconds"),
        ((1714557600,), "seconds"),
        (("1714557600000",), "milliseconds"),
        (("1714557600000000",), "microseconds"),
        (("2024-05-01T10:00:00Z",), "text"),
        (("2024-05-01 10:00:00.123456 +0000", "2024-05-01 10:00:00 UTC"), "text"),
        (("2024-05-01", ""), "text"),
        (("20240501",), "text"),
        (("01.05.2024 10:00:00",), "text %d.%m.%Y %H:%M:%S"),
        (("05/01/2024 10:00", "05/31/2024 10:00"), "text %m/%d/%Y %H:%M"),
        (("05/01/2024 10:00", "31/05/2024 10:00"), "text %d/%m/%Y %H:%M"),
        (("May 1, 2024, 10:00:00 AM",), "text %b %d, %Y, %I:%M:%S %p"),
        ((), "text"),
    ],
)
def test_the_unit_and_the_format_of_times_are_guessed_from_their_values(values, written):
    assert guess(["ts"], *([value] for value in values)) == {"ts": f"time {written}"}


@pytest.mark.parametrize(
    ("column", "value", "use"),
    [
        ("User ID", "1042", "user"),
        ("customer", "ann@shop.example", "user"),
        ("anonymous_id", "d-1", "visitor"),
        ("distinct_id", "d-1", "visitor"),
        ("device", "8f2c", "visitor"),
        ("device", "Mobile", "field device"),
        ("$current_url", "https://shop.example/a", "field url"),
        ("url", "no-url", "property"),
        ("insert_id", "1", "field dedupeKey"),
        ("type", "pageview", "type"),
        ("name", "order_paid", "event"),
        ("name", "17", "property number"),
        ("props", '{"a": 1}', "properties"),
        ("props", "a", "property"),
        ("zip", "12345", "property"),
        ("Order\u00a0note", "a", "property"),
        ("code", "007", "property"),
        ("score", "007", "property"),
        ("person", "ann", "user"),
        ("userid", "1042", "user"),
        ("domain_userid", "8f2c", "visitor"),
        ("order_id", "", "property"),
        ("score", "-0.5", "property number"),
        ("score", "1,5", "property number comma"),
        ("score", "1.234,50", "property number comma"),
        ("score", "1,234.50", "property number"),
        ("score", "€ 12", "property number"),
        ("score", "-3,50 €", "property number comma"),
        ("score", "SKU 12", "property"),
        ("score", "0,12,3", "property"),
        ("ip", "192.168.100.200", "property"),
        ("Unnamed: 0", "1", "ignored"),
        ("a" * 300, "1", "ignored"),
        ("count", 5, "property"),
    ],
)
def test_the_use_of_a_column_is_guessed_from_its_name_and_values(column, value, use):
    assert guess([column], [value]) == {column: use}


def test_the_other_columns_say_which_mark_of_a_number_is_decimal():
    assert guess(["total", "tax"], ["1.234", "241,15"]) == {
        "total": "property number comma", "tax": "property number comma",
    }  # fmt: skip
    assert guess(["total", "tax"], ["1.234", "241.15"]) == {
        "total": "property number", "tax": "property number",
    }  # fmt: skip


def test_an_id_on_several_events_of_one_person_is_guessed_as_the_attempt():
    rows = [("u1", "a", "7", "1"), ("u1", "b", "7", "2"), ("u2", "a", "8", "3")]
    header = ("user_id", "event", "reservation_no", "row_no")
    assert guess(header, *rows)["reservation_no"] == "attempt"
    shared = [*rows, ("u3", "a", "8", "4")]
    assert guess(header, *shared)["reservation_no"] == "property"


@cases(
    ("names", "use"),
    [
        ([f"#{1001 + number}" for number in range(20)], "property"),
        ([f"#{1001 + number // 4}" for number in range(20)], "property"),
        ([f"Order of {letter}" for letter in "abcdefghijklmnop"], "property"),
        (["started", "paid", "started", "paid", "sent", "sent", "paid", "started"], "event"),
        (["started", "paid"], "event"),
    ],
)
def test_an_event_name_repeats_and_is_no_number(names, use):
    assert guess(["name"], *([name] for name in names)) == {"name": use}


@cases("name", ["device_id", "session_id", "domain_sessionid", "reservation_id"])
def test_an_id_of_a_device_or_session_is_not_guessed_as_the_attempt(name):
    rows = [("u1", "a", "7"), ("u1", "b", "7"), ("u2", "a", "8")]
    is_attempt = name == "reservation_id"
    assert (guess(("user_id", "event", name), *rows)[name] == "attempt") is is_attempt


def test_each_time_names_an_event_if_no_column_does():
    header = ("Name", "Email", "Paid at", "Created at", "Updated at", "Cancelled at")
    at = "2024-05-01 10:00:00 +0200"
    mapping = guess_mapping(Sample(header, [("#1001", "ann@shop.example", at, at, at, "")]))
    assert mapping.gaps() == []
    events = {each.column: each.event for each in mapping.columns if each.use is Use.TIME}
    assert events == {"Paid at": "Paid", "Created at": "Created", "Cancelled at": "Cancelled"}
    named = guess_mapping(Sample(("event", "user", *header[2:]), [("a", "u", at, at, at, "")]))
    assert sum(each.use is Use.TIME for each in named.columns) == 1


def test_each_use_is_guessed_once():
    guessed = guess(
        ["time", "created_at", "user_id", "customer_id", "event", "action", "order_id", "cart_id"],
        ["1714557600", "1714557600", "1", "2", "a", "b", "3", "4"],
    )
    assert guessed["time"] == "time seconds"
    assert guessed["created_at"] == "property number"
    assert guessed["customer_id"] == guessed["action"] == "property"
    assert [use for use in guessed.values() if use == "attempt"] == ["attempt"]


def test_a_wide_table_has_no_more_properties_than_an_event_may_have():
    mapping = guess_mapping(Sample([f"c{number}" for number in range(400)], [["x"] * 400]))
    assert sum(each.use is Use.PROPERTY for each in mapping.columns) == 255
    repeated = guess_mapping(Sample(["$plan", "plan"], [["a", "b"]]))
    assert [each.use for each in repeated.columns] == [Use.PROPERTY, Use.IGNORED]


def test_a_guess_says_what_an_import_still_needs():
    gaps = guess_mapping(Sample(["plan"], [["pro"]])).gaps()
    assert [fault.code for fault in gaps] == ["time_required", "identity_required", "required"]
