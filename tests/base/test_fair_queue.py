"""A few slots, taken in turn by the keys that want them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from penstock.base.errors import QueueFull
from penstock.base.fair_queue import FairQueue, QueueLimits, Turn
from tests import loops


def queue(slots: int = 2, per_key: int = 1, waiting: int = 6, waiting_per_key: int = 3):
    return FairQueue("queries", QueueLimits(slots, per_key, waiting, waiting_per_key))


def enter(fair: FairQueue, keys: str) -> list[Turn]:
    return [fair.enter(key, lambda: None) for key in keys]


def holders(turns: list[Turn]) -> str:
    return "".join(str(turn.key) for turn in turns if turn.has_slot and not turn.has_left)


def test_a_key_holds_at_most_its_own_slots_and_all_keys_at_most_all():
    fair = queue(slots=3, per_key=2)
    turns = enter(fair, "aaabbb")
    assert holders(turns) == "aab"
    fair.leave(turns[3])
    assert holders(turns) == "aab"  # the next b: a has its two
    fair.leave(turns[0])
    fair.leave(turns[1])
    assert holders(turns) == "abb"


def test_keys_take_turns_whatever_the_length_of_their_queues():
    fair = queue(slots=1, waiting=100, waiting_per_key=50)
    turns = enter(fair, "a" * 20 + "b" + "c" * 2)
    order = []
    while waiting := [turn for turn in turns if not turn.has_left]:
        [holder] = [turn for turn in waiting if turn.has_slot]
        order.append(holder.key)
        fair.leave(holder)
    assert "".join(order) == "a" + "abc" + "ac" + "a" * 17


def test_callers_of_one_key_are_served_in_their_order():
    fair = queue(slots=1)
    turns = enter(fair, "aaa")
    for turn in turns:
        assert [other for other in turns if other.has_slot and not other.has_left] == [turn]
        fair.leave(turn)


def test_a_full_queue_refuses_at_once_first_the_key_then_everybody():
    fair = queue()
    enter(fair, "a" * 4)  # one runs, three wait
    with pytest.raises(QueueFull, match="You have 4 unfinished queries") as refused:
        enter(fair, "a")
    assert (refused.value.status, refused.value.code) == (503, "busy")
    assert refused.value.retry_after_s
    enter(fair, "b" * 4)
    with pytest.raises(QueueFull, match="All callers together have 8 unfinished queries"):
        enter(fair, "c")


def test_a_caller_that_leaves_before_its_turn_frees_its_place():
    fair = queue(slots=1)
    turns = enter(fair, "aaaa")
    fair.leave(turns[1])
    fair.leave(turns[1])
    enter(fair, "a")
    fair.leave(turns[0])
    assert [turn.has_slot for turn in turns] == [True, False, True, False]


def test_a_thread_waits_for_a_slot_and_stops_when_its_check_fails():
    fair, inside, may_continue = queue(slots=1), Event(), Event()

    def hold() -> None:
        with fair.slot("a"):
            inside.set()
            may_continue.wait(30)

    def stop() -> None:
        raise InterruptedError

    with ThreadPoolExecutor() as threads:
        holding = threads.submit(hold)
        assert inside.wait(30)
        with pytest.raises(InterruptedError), fair.slot("b", stop):
            pass
        waiting = threads.submit(hold)
        inside.clear()
        may_continue.set()
        assert inside.wait(30)
        holding.result(30)
        waiting.result(30)
    assert holders(enter(fair, "c")) == "c"


def test_a_coroutine_that_is_cancelled_while_it_waits_leaves_no_trace():
    fair = queue(slots=1)

    async def run() -> None:
        entered = asyncio.Event()

        async def hold() -> None:
            async with fair.slot_async("a"):
                entered.set()
                await asyncio.sleep(3600)

        first, second = asyncio.create_task(hold()), asyncio.create_task(hold())
        await entered.wait()
        second.cancel()
        await asyncio.wait({second})
        first.cancel()
        await asyncio.wait({first})
        async with fair.slot_async("b"):
            pass

    loops.run(run)
    assert holders(enter(fair, "c")) == "c"


def test_many_threads_never_hold_more_than_the_slots():
    fair, running, counts = queue(slots=3, per_key=2, waiting=100, waiting_per_key=100), [], []

    async def run() -> None:
        def work(key: int) -> None:
            running.append(key)
            counts.append((len(running), running.count(key)))
            running.remove(key)

        await asyncio.gather(*(fair.run(number % 4, work, number % 4) for number in range(60)))

    loops.run(run)
    assert len(counts) == 60
    assert max(total for total, _ in counts) <= 3
    assert max(own for _, own in counts) <= 2
    assert holders(enter(fair, "c")) == "c"


def test_the_reserved_slot_is_for_a_key_without_a_slot():
    fair = FairQueue("queries", QueueLimits(4, 2, 6, 3, reserved_slots=1))
    turns = enter(fair, "aabb")
    assert holders(turns) == "aab"
    [other] = enter(fair, "c")
    assert other.has_slot
    fair.leave(other)
    assert holders(turns) == "aab"
    fair.leave(turns[0])
    assert holders(turns) == "abb"


def test_a_slot_that_was_given_up_counts_only_for_its_key():
    fair = queue(slots=1, per_key=1)
    turns = enter(fair, "aab")
    fair.give_up(turns[0])
    assert holders(turns) == "ab"
    fair.leave(turns[2])
    assert holders(turns) == "a"
    fair.leave(turns[0])
    assert [turn.has_slot for turn in turns] == [True, True, True]
