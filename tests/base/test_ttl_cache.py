"""The cache of records: it gives back what is over."""

import gc
import time
import weakref

from penstock.base.ttl_cache import TtlCache


class Record:
    """A value that a test can watch."""


def test_values_that_are_over_leave_when_others_come():
    cache = TtlCache[int, Record](ttl_s=0.01)
    records = [weakref.ref(cache.load(key, Record)) for key in range(20)]
    time.sleep(0.02)
    for key in range(10):
        cache.load(100 + key, Record)
    gc.collect()
    assert [record() for record in records] == [None] * 20


def test_a_value_that_is_read_again_stays():
    cache = TtlCache[int, Record](ttl_s=60)
    record = cache.load(1, Record)
    for key in range(2, 10):
        cache.load(key, Record)
    assert cache.load(1, Record) is record
