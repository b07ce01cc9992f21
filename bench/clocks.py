"""Simulates devices with correct, wrong and drifting clocks. Requests take 10 ms to 8 hours.

    python -m bench.clocks [DEVICES]

Prints how many events are stored more than a second from their true time, and how many consecutive
events of a device swap places: with the rule before decision 0017, with today's rule for senders of
`sentAt`, and for clients that measure their offset. Decision 0017 contains the figures.
"""

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from penstock.events.device_clock import ClockReading, clock_after, error_by_device

_SLACK_MS = 5_000
_MOVED_MS = 1_000


class Sent(NamedTuple):
    """An event that is sent immediately. clock_ms: the device's clock minus the true time."""

    at_ms: int
    arrives_ms: int
    clock_ms: int


Rule = Callable[[list[Sent]], list[int]]


def device(chance: random.Random, kind: str) -> list[Sent]:
    """Return twenty events of one device, some seconds apart."""
    error_ms = 0 if kind == "right" else chance.choice((-1, 1)) * 10 ** chance.uniform(3.7, 7.9)
    drift = chance.uniform(-1e-4, 1e-4) if kind == "drifting" else 0.0
    events, at_ms = [], 0
    for _ in range(20):
        at_ms += round(10 ** chance.uniform(2.5, 4.5))
        events.append(Sent(at_ms, at_ms + transit_ms(chance), round(error_ms + drift * at_ms)))
    return events


def transit_ms(chance: random.Random) -> int:
    """Return a request's duration: usually 10 ms to 1 s, but up to a minute for one request in 20,
    and up to 8 hours for one in 100.
    """
    luck = chance.random()
    longest = 7.46 if luck < 0.01 else 4.78 if luck < 0.06 else 3.0
    return round(10 ** chance.uniform(1.0 if longest == 3.0 else 3.0, longest))


def arrived(events: list[Sent]) -> Iterable[tuple[int, Sent]]:
    return sorted(enumerate(events), key=lambda pair: pair[1].arrives_ms)


def before(events: list[Sent]) -> list[int]:
    """Apply the old rule: a difference of more than five seconds between receipt and `sentAt` is a
    clock error.
    """
    stored = []
    for at_ms, arrives_ms, clock_ms in events:
        ahead_ms = at_ms + clock_ms - arrives_ms
        stored.append(at_ms + clock_ms - (ahead_ms if abs(ahead_ms) > _SLACK_MS else 0))
    return stored


def by_device(events: list[Sent]) -> list[int]:
    """Apply the server's rule for `sentAt`."""
    stored, clock = [0] * len(events), None
    for index, (at_ms, arrives_ms, clock_ms) in arrived(events):
        reading = ClockReading(at_ms + clock_ms - arrives_ms)
        clock = clock_after(clock, reading, arrives_ms)
        stored[index] = at_ms + clock_ms - error_by_device(clock, reading)
    return stored


def measured(events: list[Sent]) -> list[int]:
    """Apply the rule of `/t.js`, which is in `sdk/js/src/core/clock.ts`.

    Events before the first answer follow the rule for `sentAt`. Requests and answers each take half
    of the round trip.
    """
    stored = by_device(events)
    used: tuple[int, float] | None = None
    for index, (at_ms, _, clock_ms) in enumerate(events):
        answers = [sent for sent in events[:index] if sent.arrives_ms <= at_ms]
        if answers:
            offset_ms = estimate_ms(min(answers, key=lambda sent: sent.arrives_ms - sent.at_ms))
            before_ms, earlier_ms = used or (events[index - 1].at_ms, applied_ms(stored, events))
            offset_ms = max(offset_ms, earlier_ms - (at_ms - before_ms) / 2)
            used = at_ms, offset_ms
            stored[index] = at_ms + clock_ms + round(offset_ms)
    return stored


def estimate_ms(sent: Sent) -> float:
    """Return the offset measured from an answer; 0 if the clock may be right, within the slack."""
    trip_ms = sent.arrives_ms - sent.at_ms
    min_ms, max_ms = -sent.clock_ms - trip_ms / 2, -sent.clock_ms + trip_ms / 2
    is_right = max_ms > -_SLACK_MS and min_ms < _SLACK_MS
    return 0.0 if is_right else (min_ms + max_ms) / 2


def applied_ms(stored: list[int], events: list[Sent]) -> float:
    """Return the offset that the server applied to the first event."""
    return stored[0] - events[0].at_ms - events[0].clock_ms


def figures(devices: list[list[Sent]], rule: Rule) -> Iterator[float]:
    """Yield the shares of moved events and of swapped neighbours.

    An event counts as moved if it is far from both the true time and the device's own time.
    """
    moved = swapped = events = 0
    for sent in devices:
        stored = rule(sent)
        events += len(sent)
        for at_ms, (true_ms, _, clock_ms) in zip(stored, sent, strict=True):
            error_ms = at_ms - true_ms
            moved += min(abs(error_ms), abs(error_ms - clock_ms)) > _MOVED_MS
        swapped += sum(later <= earlier for earlier, later in pairwise(stored))
    yield moved / events
    yield swapped / (events - len(devices))


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    print("| clocks | rule | moved | swapped |\n|---|---|---:|---:|")
    for kind in ("right", "skewed", "drifting"):
        chance = random.Random(17)
        devices = [device(chance, kind) for _ in range(number)]
        for rule in (before, by_device, measured):
            moved, swapped = figures(devices, rule)
            print(f"| {kind} | {rule.__name__} | {moved:.2%} | {swapped:.2%} |")


if __name__ == "__main__":
    main()
