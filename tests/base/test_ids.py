"""IDs: none twice, in the order of their creation."""

import os
from concurrent.futures import ThreadPoolExecutor

from penstock.base import ids
from penstock.base.ids import new_id, new_ids

NOW_MS = 1_795_000_000_000


def test_ids_of_one_call_ascend_and_those_of_many_threads_differ():
    with ThreadPoolExecutor(8) as pool:
        calls = list(pool.map(lambda _: new_ids("evt", NOW_MS, 300), range(40)))
    assert all(each == sorted(each) for each in calls)
    assert len(set().union(*calls)) == 40 * 300
    assert new_id("evt", NOW_MS + 1) > max(map(max, calls))


def test_a_forked_process_has_ids_of_its_own():
    new_id("evt", NOW_MS)
    assert ids._unused_digits
    if (child := os.fork()) == 0:
        os._exit(len(ids._unused_digits) > 0)
    assert os.waitpid(child, 0)[1] == 0
