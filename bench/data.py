"""Inserts generated funnel events into an event store, in the form that the intake stores.

The attempts are realistic: they drop off, repeat steps, and contain noise and sequence numbers.
They include difficult cases: ties, a plan that changes or is missing, a second visitor. They are
generated in blocks of about a million step events, and each block covers its share of 60 days.
Blocks differ only in attempts, visitors and times, so all sizes have the same rates.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench import native
from bench.model import Bench
from bench.timing import in_new_process
from penstock.base.scalar import STRING, Scalar, tagged, value_hash
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse

SEED = 20_261_122
DAY_MS = 86_400_000
STARTED_MS = 1_700_000_000_000
ENDED_MS = STARTED_MS + 61 * DAY_MS
WEBSITE_ID = "web_bench"
BREAKDOWNS = ("variant", "plan", "channel")
_COUNTS = "bench-counts.json"
_SPAN_MS = 60 * DAY_MS
_INSERT = Path(__file__).with_name("events.sql").read_text("utf-8")
_VARIANTS = ("control", "a", "b")
_PLANS = ("free", "pro", "team", "enterprise")
_CHANNELS = ("search", "social", "mail", "direct", "partner")
_COUNTRIES, _CLASSES = 10, 100
_TIED, _CHANGED_PLAN, _SECOND_VISITOR, _NO_PLAN = 1, 2, 3, 4
"""Classes of attempts that are hard to count. Attempts are divided into a hundred classes."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """A set of events. steps: number of steps. step_events: approximate number, without noise.

    block_events: number of step events in a block.
    """

    steps: int
    step_events: int
    block_events: int = 1_000_000

    @property
    def blocks(self) -> int:
        return max(1, round(self.step_events / self.block_events))


class Counts(NamedTuple):
    """Exact numbers of events and attempts in a dataset."""

    events: int
    step_events: int
    attempts: int


class Template:
    """The rows that all blocks share, in the table's order, by name and time.

    Each array has one entry per row. attempt: the attempt's number in the block, from 0. nth:
    position among the attempt's events, from 1. after_ms: time since the start of the block.
    """

    def __init__(self, dataset: Dataset) -> None:
        random = np.random.default_rng(SEED)
        self.attempts = round(dataset.block_events / _mean_step_events(dataset.steps))
        reach = _reach(random, self.attempts, dataset.steps)
        # There is a row for each step reached, and a second row if it is repeated or followed by
        # noise.
        attempt = np.repeat(np.arange(self.attempts), reach)
        step = np.arange(len(attempt)) - np.repeat(np.cumsum(reach) - reach, reach) + 1
        chance = random.integers(0, 100, len(attempt))
        repeated, noisy = chance < 8, chance >= 77
        times = np.where(repeated | noisy, 2, 1)
        second = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times) == 1
        attempt, step = np.repeat(attempt, times), np.repeat(step, times)
        step[second & np.repeat(noisy, times)] = 0
        events = np.bincount(attempt)
        nth = np.arange(len(attempt)) - np.repeat(np.cumsum(events) - events, events) + 1
        kind = random.integers(0, _CLASSES, self.attempts)[attempt]
        started = np.sort(random.integers(0, _SPAN_MS // dataset.blocks, self.attempts))
        pace = random.integers(20_000, 80_000, self.attempts)
        # The events of a tied attempt differ only in their sequence numbers.
        after_ms = started[attempt] + np.where(kind == _TIED, 0, nth * pace[attempt])
        noise = random.integers(0, 20, len(attempt))
        names = [f"noise_{n}" for n in range(20)] + [f"step_{k + 1}" for k in range(dataset.steps)]
        rank_of = {name: rank for rank, name in enumerate(sorted(names))}
        named = np.where(step == 0, noise, 19 + step)
        by_name = np.array([rank_of[name] for name in names])[named]
        order = np.lexsort((after_ms, by_name))
        self.names, self.name = names, named[order]
        self.attempt, self.nth, self.kind = attempt[order], nth[order], kind[order]
        self.after_ms = after_ms[order]
        self.step_events = int((self.name >= 20).sum())
        later = self.nth > 2
        changes = (self.kind == _CHANGED_PLAN) & later
        plan = (self.attempt // 3 + changes) % len(_PLANS)
        self.values: Mapping[str, tuple[Sequence[Scalar], Numbers]] = {
            "n": (range(int(nth.max()) + 1), self.nth),
            "variant": (_VARIANTS, self.attempt % len(_VARIANTS)),
            "plan": (_PLANS, np.where(self.kind == _NO_PLAN, -1, plan)),
            "channel": (_CHANNELS, self.attempt // 36 % len(_CHANNELS)),
            "amount": (
                [cents / 100 for cents in range(10_000)],
                random.integers(0, 10_000, len(order)),
            ),
            "page": ([str(page) for page in range(1000)], random.integers(0, 1000, len(order))),
        }
        self.is_second_visitor = (self.kind == _SECOND_VISITOR) & later

    @cached_property
    def columns(self) -> Mapping[str, native.Column]:
        """Return the columns that are the same in every block."""
        return {
            "name": native.strings(self.names, self.name)._replace(present=None),
            "nth": native.integers(self.nth),
            "is_second_visitor": native.integers(self.is_second_visitor.astype(np.int64)),
        }

    @cached_property
    def scalars(self) -> Mapping[str, native.Column]:
        return {
            key: native.strings([tagged(value) for value in values], rows)
            for key, (values, rows) in self.values.items()
        }

    @cached_property
    def hashes(self) -> Mapping[str, native.Column]:
        return {
            key: native.integers(
                np.array([value_hash(tagged(value)) for value in values], np.int64)[rows],
                rows >= 0,
            )
            for key, (values, rows) in self.values.items()
        }

    def block(self, number: int, span_ms: int) -> bytes:
        """Return the rows of one block. span_ms: length of its share of the period."""
        ids = np.random.default_rng((SEED, number)).bytes(16 * self.attempts).hex()
        texts = [ids[start : start + 32] for start in range(0, len(ids), 32)]
        digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
        hashes = np.frombuffer(digests, np.int64) & ~7 | STRING
        # An exclamation mark is the character with code 33, which is the length of the text.
        tagged_ids = np.array([f"!s{text}".encode() for text in texts], "V34")
        columns = {
            **self.columns,
            "attempt": native.integers(number * self.attempts + self.attempt),
            "ms": native.integers(STARTED_MS + number * span_ms + self.after_ms),
            "scalars": native.json_column(
                {
                    **self.scalars,
                    "attemptId": native.Column("String", tagged_ids[self.attempt].tobytes()),
                }
            ),
            "hashes": native.json_column(
                {**self.hashes, "attemptId": native.integers(hashes[self.attempt])}
            ),
        }
        return native.block(columns, len(self.attempt))


def fill(data: Path, dataset: Dataset, website_id: str = WEBSITE_ID) -> None:
    """Store a dataset in a data folder's event store, and its counts in a file."""
    warehouse = Warehouse(data=data, url=None)
    migrations.migrate(warehouse)
    # No report reads the catalogue of names and values, and filling it takes the longest.
    warehouse.command("DROP VIEW IF EXISTS catalogue_feed")
    # Keep one part per block, which is as large as a merged part.
    warehouse.command("SYSTEM STOP MERGES events")
    with tempfile.TemporaryDirectory(dir=data) as folder:
        counts = insert(warehouse, dataset, website_id, Path(folder))
    warehouse.close()
    (data / _COUNTS).write_text(json.dumps(counts._asdict()), "utf-8")


def insert(warehouse: Warehouse, dataset: Dataset, website_id: str, folder: Path) -> Counts:
    """Insert a dataset. Creates the next block while the engine stores one.

    folder: where to put files that the engine reads.
    """
    template, span_ms = Template(dataset), _SPAN_MS // dataset.blocks
    parameters = {"website": website_id}
    files = [folder / f"{number}.native" for number in range(dataset.blocks)]

    def make(number: int) -> None:
        files[number].write_bytes(template.block(number, span_ms))

    with ThreadPoolExecutor(1) as maker:
        making = maker.submit(make, 0)
        for number, file in enumerate(files):
            making.result()
            if number + 1 < dataset.blocks:
                making = maker.submit(make, number + 1)
            warehouse.command(_INSERT.replace("{file}", str(file)), parameters)
            file.unlink()
    return Counts(
        len(template.attempt) * dataset.blocks,
        template.step_events * dataset.blocks,
        template.attempts * dataset.blocks,
    )


def store_dataset(bench: Bench, dataset: Dataset) -> Path:
    """Return the data folder of a dataset. Creates the dataset on first use."""
    data = bench.folder / f"{dataset.steps}-steps-{dataset.step_events}"
    if not (data / _COUNTS).exists():
        bench.progress(f"storing {dataset.step_events:,} step events of {dataset.steps} steps")
        data.mkdir(parents=True, exist_ok=True)
        in_new_process(fill, data, dataset)
    return data


def counts_of(data: Path) -> Counts:
    return Counts(**json.loads((data / _COUNTS).read_text("utf-8")))


def _reach(random: np.random.Generator, attempts: int, steps: int) -> Numbers:
    """Choose the number of steps that each attempt reaches. Most attempts reach many steps."""
    share = np.log1p(random.integers(0, 1000, attempts) / 30.0) * 0.32
    reach: Numbers = (1 + np.minimum(steps - 1, share * (steps - 1))).astype(np.int64)
    return reach


def _mean_step_events(steps: int) -> float:
    """Return the mean number of step events per attempt. One step in twelve is repeated."""
    return 1.08 * float(_reach(np.random.default_rng(SEED), 100_000, steps).mean())
