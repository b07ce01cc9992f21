"""Imports of tables with a mapping: times, IDs, types, faults, and the form of the file."""

import gzip
import io
import json
import zipfile
from itertools import product

import pytest

from tests.answers import body_of, problem
from tests.cases import cases, full_except
from tests.events.conftest import imported, upload
from tests.events.imports.conftest import counts, rejects, stored
from tests.events.imports.exported import Table, parquet

try:
    from compression import zstd
except ImportError:
    from backports import zstd

USES = {"ts": ("time", "seconds"), "u": ("user",), "e": ("event",)}


def column(column_name, use, unit=None, /, **more):
    return {"column": column_name, "use": use, **({"unit": unit} if unit else {}), **more}


def mapping(*columns, **more):
    return {"columns": [*(column(name, *USES[name]) for name in USES), *columns], **more}


@pytest.fixture
def import_table(workspace):
    def run(content, sent, **query):
        body = content if isinstance(content, bytes) else content.encode()
        query = {"format": "csv", "mapping": json.dumps(sent)} | query
        return imported(workspace, body, "text/plain", **query)

    return run


@pytest.mark.usefixtures("warehouse")
def test_values_get_the_types_of_the_mapping(import_table, workspace, services):
    sent = mapping(
        column("order", "attempt", name="order_id"),
        column("total", "property", type="number"),
        column("$new", "property", type="boolean"),
        column("tags", "property", type="json"),
        column("zip", "property"),
        column("more", "properties"),
        column("row", "field", name="dedupeKey"),
        column("note", "ignored"),
    )
    job = import_table(
        "row,ts,u,e,order,total,$new,tags,zip,more,note\n"
        '1,1714557600,17,paid,5,9.50,True,"[1]",01234,"{""plan"": ""pro"", ""$x"": 2}",n\n'
        "2,1714557601.25,17,paid,,10,0,,,,\n"
        "2,1714557601.25,17,paid,,10,0,,,,\n",
        sent,
    )
    assert (job["state"], counts(job)) == ("done", (4, 2, 1, 0))
    columns = "toUnixTimestamp64Milli(occurred_at), user_id, properties"
    assert sorted(stored(services, workspace.website_id, columns)) == [
        (
            1_714_557_600_000,
            "17",
            '{"plan":"pro","x":2,"order_id":"5","total":9.5,"new":true,"tags":[1],"zip":"01234"}',
        ),
        (1_714_557_601_250, "17", '{"total":10,"new":false}'),
    ]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    ("uses", "cell", "expected_ms"),
    [
        ({"unit": "milliseconds"}, "1714557600123", 1_714_557_600_123),
        ({"unit": "microseconds"}, "1714557600123456", 1_714_557_600_123),
        ({"unit": "text"}, "2024-05-01T12:00:00+02:00", 1_714_557_600_000),
        ({"unit": "text"}, "2024-05-01 12:00:00", 1_714_557_600_000),
        ({"unit": "text", "format": "%d.%m.%Y %H:%M"}, "01.05.2024 12:00", 1_714_557_600_000),
    ],
)
def test_times_have_the_unit_format_and_zone_of_the_mapping(
    import_table, workspace, services, uses, cell, expected_ms
):
    columns = [{"column": "ts", "use": "time", **uses}, column("u", "user"), column("e", "event")]
    import_table(f"ts,u,e\n{cell},1,a\n", {"columns": columns, "timezone": "Europe/Berlin"})
    assert stored(services, workspace.website_id, "toUnixTimestamp64Milli(occurred_at)") == [
        expected_ms
    ]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    ("decimal", "cell", "number"),
    [
        ("comma", "241,15", "241.15"),
        ("comma", "1.234,50", "1234.5"),
        ("comma", "-1.234.567", "-1234567"),
        ("comma", "12,5 €", "12.5"),
        ("point", "€ 12", "12"),
        ("point", "1,234.50", "1234.5"),
        (None, "CHF 1'234", "1234"),
    ],
)
def test_numbers_may_have_decimal_commas_thousands_marks_and_currencies(
    import_table, workspace, services, decimal, cell, number
):
    total = column("total", "property", type="number")
    total |= {"decimal": decimal} if decimal else {}
    import_table(f'ts;u;e;total\n1714557600;1;a;"{cell}"\n', mapping(total))
    assert stored(services, workspace.website_id, "properties") == [f'{{"total":{number}}}']


@cases("cell", ["19,99", "1.2.3", "€", "12 apples", "1,23,4"])
def test_another_text_is_no_number_and_the_error_says_how_to_write_it(import_table, client, cell):
    sent = mapping(column("total", "property", type="number"))
    job = import_table(f'ts;u;e;total\n1714557600;1;a;"{cell}"\n', sent)
    [reject] = rejects(client, job)
    assert "such as 19.99 or 1,234.50" in reject["errors"][0]["message"]


@pytest.mark.usefixtures("warehouse")
def test_an_id_that_was_written_as_a_float_is_the_whole_number(import_table, workspace, services):
    sent = mapping(column("row", "field", name="dedupeKey"))
    rows = ["1714557600,17.0,a,1.0", "1714557601,17,b,2", "1714557602,17.5,c,3"]
    assert counts(import_table("\n".join(["ts,u,e,row", *rows]), sent)) == (4, 3, 0, 0)
    assert stored(services, workspace.website_id, "user_id") == ["17", "17", "17.5"]


def test_a_float_of_2_to_the_53_is_no_id(import_table, client):
    """143349558619761321 and 143349558619761330 are the same floating-point number."""
    sent = mapping(column("row", "field", name="dedupeKey"))
    columns = {
        "ts": [1714557600] * 3, "e": ["a"] * 3, "row": [1.0, 2.0, 143349558619761321.0],
        "u": [143349558619761321.0, 143349558619761330.0, 17.0],
    }  # fmt: skip
    texts = ["ts,u,e,row", "1714557600,143349558619761312.0,a,1", "1714557600,1.4335E+17,a,2"]
    job = import_table(parquet(columns), sent, format="parquet")
    for field, reject in zip(["u", "u", "row"], rejects(client, job), strict=True):
        assert reject["errors"][0]["field"] == field
        assert "whose last digits are lost" in reject["errors"][0]["message"]
    assert import_table("\n".join(texts), sent)["rejected"] == 2


FAULTY = [
    ("soon,1,a,,", "ts", "not_a_time"),
    ("1e999999999,1,a,,", "ts", "not_a_time"),
    ("1714557600000,1,a,,", "ts", "not_a_time"),
    ("1714557600,1,a,much,", "total", "wrong_type"),
    ("1714557600,1,a,,perhaps", "new", "wrong_type"),
    ("1714557600,,a,,", "visitorId", "identity_required"),
    ("1714557600,1,,,", "name", "required"),
    (",1,a,,", "timestamp", "required"),
]


def test_a_faulty_row_costs_no_other_row_and_names_its_column(import_table, client):
    sent = mapping(
        column("total", "property", type="number"), column("new", "property", type="boolean")
    )
    good = "1714557600,1,good,,"
    lines = ["ts,u,e,total,new", good, *(part for row, _, _ in FAULTY for part in (row, good))]
    job = import_table("\n".join(lines), sent)
    assert counts(job) == (len(lines), len(FAULTY) + 1, 0, len(FAULTY))
    for index, (reject, (row, field, code)) in enumerate(
        zip(rejects(client, job), FAULTY, strict=True), 1
    ):
        assert (reject["line"], reject["errors"][0]["code"]) == (2 * index + 1, code), row
        assert reject["errors"][0]["field"] in (field, "userId"), row


def compressed_in_archive(content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", content)
    return out.getvalue()


FORMS = (
    (bytes, "utf-8", ","),
    (gzip.compress, "utf-8-sig", ";"),
    (zstd.compress, "utf-16", "\t"),
    (compressed_in_archive, "utf-8", ";"),
)
"""Forms of files, of which `make test` reads each part once."""
ALL_FORMS = product(
    (bytes, gzip.compress, zstd.compress, compressed_in_archive),
    ("utf-8", "utf-8-sig", "utf-16"),
    (",", ";", "\t"),
)


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    ("pack", "encoding", "separator"), full_except(FORMS, ALL_FORMS, "each form with each other")
)
def test_the_form_of_the_file_does_not_matter(
    import_table, workspace, services, pack, encoding, separator
):
    rows = (("ts", "u", "e", "note"), ("1714557600", "1", "a", '"x\n""y""; z"'))
    text = "".join(separator.join(row) + "\r\n" for row in rows)
    job = import_table(pack(text.encode(encoding)), mapping(column("note", "property")))
    assert (job["state"], job["accepted"]) == ("done", 1)
    assert stored(services, workspace.website_id, "properties") == ['{"note":"x\\n\\"y\\"; z"}']


@pytest.mark.usefixtures("warehouse")
def test_page_and_screen_views_have_the_event_name_as_path_and_screen(
    import_table, workspace, services
):
    sent = mapping(column("kind", "type"), column("link", "field", name="url"))
    import_table(
        "ts,u,e,kind,link\n"
        "1714557600,1,/pricing,Pageview,\n"
        "1714557601,1,Viewed page,pageview,https://shop.example/b\n"
        "1714557602,1,Home,screenview,\n"
        "1714557603,1,paid,,\n",
        sent,
    )
    assert stored(services, workspace.website_id, "name, toString(kind)") == [
        ("/pricing", "pageview"), ("/b", "pageview"), ("Home", "screenview"), ("paid", "event"),
    ]  # fmt: skip


@pytest.mark.usefixtures("warehouse")
def test_one_name_may_be_that_of_all_events_and_other_columns_have_one_use(
    import_table, workspace, services
):
    columns = [column("ts", "time", "seconds"), column("u", "visitor")]
    sent = {"columns": columns, "eventName": "order_paid", "otherColumns": "property"}
    job = import_table("ts,u,plan,$os\n1714557600,1,pro,x\n", sent)
    assert job["mapping"]["eventName"] == "order_paid"
    assert stored(services, workspace.website_id, "name, properties") == [
        ("order_paid", '{"plan":"pro","os":"x"}')
    ]


ORDERS = """\
Name,Email,Created at,Paid at,Fulfilled at,Total
#1001,ann@shop.example,2024-05-01 10:00:00 +0200,2024-05-01 10:05:00 +0200,,9.50
#1001,ann@shop.example,2024-05-01 10:00:00 +0200,,,
#1002,bob@shop.example,2024-05-02 10:00:00 +0200,,2024-05-03 08:00:00 +0200,20
#1003,cy@shop.example,,,,5
"""
"""Orders as Shopify exports them; each further item of an order is a row."""


def shopify(*more, **others):
    times = [
        column(f"{name} at", "time", "text", event=f"Order {name.lower()}")
        for name in ("Created", "Paid", "Fulfilled")
    ]
    key = column("Name", "field", name="dedupeKey")
    return {"columns": [*times, column("Email", "user"), key, *more], **others}


@pytest.mark.usefixtures("warehouse")
def test_a_row_has_an_event_for_each_of_its_times(import_table, workspace, services):
    sent = shopify(column("Total", "property", type="number"))
    job = import_table(ORDERS, sent)
    assert (counts(job), job["ignoredLines"]) == ((5, 4, 1, 0), 1)
    assert stored(services, workspace.website_id, "name, user_id, properties") == [
        ("Order created", "ann@shop.example", '{"total":9.5}'.replace("total", "Total")),
        ("Order paid", "ann@shop.example", '{"Total":9.5}'),
        ("Order created", "bob@shop.example", '{"Total":20}'),
        ("Order fulfilled", "bob@shop.example", '{"Total":20}'),
    ]
    assert counts(import_table(ORDERS, sent)) == (5, 0, 5, 0)


def test_a_faulty_time_rejects_all_events_of_its_row_once(import_table, client):
    rows = ORDERS.replace("2024-05-03 08:00:00 +0200", "soon")
    job = import_table(rows, shopify(otherColumns="ignored"))
    assert counts(job) == (5, 2, 1, 1)
    [reject] = rejects(client, job)
    assert (reject["line"], reject["errors"][0]["field"]) == (4, "Fulfilled at")


@pytest.mark.usefixtures("warehouse")
def test_names_of_events_state_types_and_values_are_replaced(import_table, workspace, services):
    sent = {
        "columns": [
            column("ts", "time", "seconds"),
            column("u", "user"),
            column("e", "event", types={"page_view": "pageview"}, values={"ev_17": "Order paid"}),
            column("link", "field", name="url"),
            column("plan", "property", values={"1": "pro"}),
        ]
    }
    import_table(
        "ts,u,e,link,plan\n"
        "1714557600,1,page_view,https://shop.example/b,1\n"
        "1714557601,1,page_view,,2\n"
        "1714557602,1,ev_17,,\n",
        sent,
    )
    assert stored(services, workspace.website_id, "name, toString(kind), properties") == [
        ("/b", "pageview", '{"plan":"pro"}'),
        ("page_view", "event", '{"plan":"2"}'),
        ("Order paid", "event", ""),
    ]


@cases(
    ("sent", "field"),
    [
        ({"columns": []}, "mapping.columns"),
        ("{", "mapping"),
        (mapping(column("x", "guess")), "mapping.columns[3].use"),
        (mapping(column("ts", "property")), "mapping.columns[0].column"),
        (mapping(column("x", "time", "hours")), "mapping.columns[3].unit"),
        (mapping(column("x", "field", name="height")), "mapping.columns[3].name"),
        (mapping(column("x", "property", name="$x")), "mapping.columns[3].name"),
        (mapping(column("x", "property", decimal="comma")), "mapping.columns[3].decimal"),
        (mapping(column("x", "time", "text", event="paid")), "mapping.columns[0].event"),
        (shopify(eventName="paid"), "mapping.eventName"),
        (mapping(column("x", "user", event="paid")), "mapping.columns[3].event"),
        (mapping(column("x", "property", types={"a": "event"})), "mapping.columns[3].types"),
        (
            mapping(column("x", "property", values={str(n): "" for n in range(1001)})),
            "mapping.columns[3].values",
        ),
        (mapping(timezone="Mars"), "mapping.timezone"),
        (mapping(eventName="a"), "mapping.eventName"),
        (mapping(column("x" * 31_000, "ignored")), "mapping"),
        (mapping(column("x", "time", "text", format="%999999d%Y")), "mapping.columns[3].format"),
    ],
)  # fmt: skip
def test_a_wrong_mapping_is_an_error_that_names_the_field(workspace, sent, field):
    text = sent if isinstance(sent, str) else json.dumps(sent)
    answer = upload(workspace, b"ts,u,e\n", "text/csv", mapping=text)
    assert field in [fault["field"] for fault in body_of(answer, 400)["errors"]]


def test_a_format_with_fields_of_its_own_accepts_no_mapping(workspace):
    answer = upload(
        workspace, b"{}\n", "text/plain", format="mixpanel", mapping=json.dumps(mapping())
    )
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "not_for_format")


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u3000"])
def test_the_name_of_a_column_may_contain_any_space(import_table, workspace, services, space):
    header = f"ts,u,e,Order{space}total,{space}plan{space}"
    sent = mapping(column(f"Order{space}total", "property"), column("plan", "property"))
    import_table(f"{header}\n1714557600,1,a,5,pro\n", sent)
    [properties] = stored(services, workspace.website_id, "properties")
    assert json.loads(properties) == {f"Order{space}total": "5", "plan": "pro"}


@cases(
    ("header", "advice"),
    [
        ("ts,u,e,plan", "does not list the column 'plan'"),
        ("ts,u", "does not have the column 'e'"),
        ("ts,u,e,e", "a column twice"),
        ("ts,u,e," + "x" * 501, "more than 500 characters"),
        ("ts,u,e,pl\x00an", "control characters"),
    ],
)
def test_a_file_with_other_columns_is_rejected_at_the_upload(workspace, header, advice):
    answer = upload(
        workspace, f"{header}\n1,2,3\n".encode(), "text/csv", mapping=json.dumps(mapping())
    )
    assert problem(answer) == (415, "not_csv")
    assert advice in answer.json()["detail"]


def test_a_table_without_a_mapping_names_the_command(workspace):
    answer = upload(workspace, Table().as_csv(), "text/csv")
    assert problem(answer) == (415, "not_csv")
    assert "penstock import FILE --guess-mapping" in answer.json()["detail"]
