"""Values of properties that must not leave the dashboard."""

from penstock.funnels.hidden_values import hide_in_sentences, hide_values
from penstock.funnels.results.schema import CohortRecord
from penstock.funnels.verdicts import PhraseRecord, SentenceRecord


def cohort(entered: int, **values: object) -> CohortRecord:
    return CohortRecord.model_construct(cohort=values, entered=entered)


def test_values_are_numbered_by_their_entries_and_keep_their_types() -> None:
    cohorts = [cohort(5, plan=1, paid=True), cohort(4, plan="1", paid=None), cohort(3, plan="1")]
    assert hide_values(cohorts, ["paid"]) == [
        {"plan": "2nd value", "paid": True},
        {"plan": "1st value", "paid": None},
        {"plan": "1st value"},
    ]


def test_the_eleventh_value_is_not_the_11st() -> None:
    names = [each["plan"] for each in hide_values([cohort(1, plan=n) for n in range(23)], ())]
    assert names[10:13] == ["11th value", "12th value", "13th value"]
    assert names[20:23] == ["21st value", "22nd value", "23rd value"]


def test_a_sentence_about_a_hidden_value_is_left_out() -> None:
    about = PhraseRecord(text="plan = pro rose", properties=("plan",))
    with_one = [PhraseRecord(text="Most is lost, mostly with "), about, PhraseRecord(text=".")]
    sentences = [SentenceRecord(text="", phrases=phrases) for phrases in ([about], with_one)]
    assert hide_in_sentences(sentences, ()) == ["Most is lost, mostly with one value of plan."]
    assert hide_in_sentences(sentences, ["plan"]) == [
        "plan = pro rose",
        "Most is lost, mostly with plan = pro rose.",
    ]
