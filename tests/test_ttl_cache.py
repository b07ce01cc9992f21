"""What the process keeps of the metadata DB for the hot path."""

from penstock.base.ttl_cache import TtlCache


def test_a_valid_value_is_read_once():
    cache, reads = TtlCache[str, int](ttl_s=60), []
    for _ in range(3):
        assert cache.load("a", lambda: reads.append("a") or 1) == 1
    assert reads == ["a"]
    assert cache.get("a") == 1


def test_an_expired_value_is_read_again():
    cache = TtlCache[str, int](ttl_s=0)
    cache.load("a", lambda: 1)
    assert cache.get("a") is None
    assert cache.load("a", lambda: 2) == 2


def test_none_is_not_cached():
    cache = TtlCache[str, int](ttl_s=60)
    assert cache.load("a", lambda: None) is None
    assert cache.load("a", lambda: 1) == 1


def test_a_value_read_before_a_change_is_not_cached_after_it():
    cache = TtlCache[str, int](ttl_s=60)

    def read_while_it_is_revoked() -> int:
        cache.forget("a")
        return 1

    assert cache.load("a", read_while_it_is_revoked) == 1
    assert cache.get("a") is None
