"""Prepares a service with an account, and many events of attempts with 20 steps."""

import json
from pathlib import Path

from bench.data import Dataset, fill
from bench.model import Bench
from bench.service import Account, penstock, sign_up
from bench.timing import in_new_process

SIZE, STEPS = 10_000_000, 20
_ACCOUNT = "bench-account.json"


def service_with_events(bench: Bench) -> tuple[Path, Account]:
    """Return the service's data folder, which is created on first use, and its account."""
    data = bench.folder / "service"
    file = data / _ACCOUNT
    if not file.exists():
        bench.progress(f"storing {bench.events(SIZE):,} step events of {STEPS} steps")
        with penstock(data) as service:
            account = sign_up(service.url)
        dataset = Dataset(STEPS, bench.events(SIZE), bench.events(1_000_000))
        in_new_process(fill, data, dataset, account.website_id)
        file.write_text(json.dumps(account._asdict()), "utf-8")
    return data, Account(**json.loads(file.read_text("utf-8")))
