"""Runs `penstock` and kills it at a moment: `KILL_AT=sent python -m tests.webhooks.killed serve`.

Each moment comes after the first message was made or sent, except `making`.
"""

import os
import signal
from collections.abc import Callable
from typing import Any

from penstock.outbound.sender import Outbound
from penstock.webhooks import store
from penstock.webhooks.deliveries import Deliverer
from penstock.webhooks.maker import MessageMaker
from tests.limited import run

MOMENTS = {
    "making": (store, "add_messages", "before"),
    "made": (store, "add_messages", "after"),
    "saved": (MessageMaker, "_save", "after"),
    "claimed": (Deliverer, "_claim", "after"),
    "sending": (Outbound, "post", "before"),
    "sent": (Outbound, "post", "after"),
    "settling": (store, "delete_until", "after"),
    "settled": (Deliverer, "_send", "after"),
}
"""Where the process dies: the owner of a function, its name, and before or after a call of it that
does something.
"""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(function: Callable[..., Any], when: str) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if function is _ADD and not arguments[2]:  # no messages
            return function(*arguments, **named)
        if when == "before":
            die()
        result = function(*arguments, **named)
        is_idle = (function is _CLAIM and result is None) or (
            function is _SAVE and not arguments[4]
        )
        if not is_idle:
            die()
        return result

    return call


_ADD, _CLAIM, _SAVE = store.add_messages, Deliverer._claim, MessageMaker._save

if __name__ == "__main__":
    owner, name, when = MOMENTS[os.environ["KILL_AT"]]
    setattr(owner, name, killed(getattr(owner, name), when))
    run()
