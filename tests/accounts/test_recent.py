"""What the process keeps of the metadata DB for the hot path."""

from penstock.accounts.recent import Recent


def test_a_value_is_read_once_while_it_is_fresh():
    kept, readings = Recent[str, int](ttl_s=60), []
    for _ in range(3):
        assert kept.load("a", lambda: readings.append("a") or 1) == 1
    assert readings == ["a"]
    assert kept.get("a") == 1


def test_an_old_value_is_read_again():
    kept = Recent[str, int](ttl_s=0)
    kept.load("a", lambda: 1)
    assert kept.get("a") is None
    assert kept.load("a", lambda: 2) == 2


def test_what_is_not_there_is_not_remembered():
    kept = Recent[str, int](ttl_s=60)
    assert kept.load("a", lambda: None) is None
    assert kept.load("a", lambda: 1) == 1


def test_a_value_read_before_a_change_is_not_kept_after_it():
    kept = Recent[str, int](ttl_s=60)

    def read_while_it_is_revoked() -> int:
        kept.forget("a")
        return 1

    assert kept.load("a", read_while_it_is_revoked) == 1
    assert kept.get("a") is None
