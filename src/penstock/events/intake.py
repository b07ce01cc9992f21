"""The intake: what waits at the moment is committed together, and each gets its answer after the commit."""

from collections.abc import Sequence

from penstock.events.model import NewEvent, Receipt


class Intake:
    """The one way in for events of every source."""

    async def submit(self, events: Sequence[NewEvent]) -> list[Receipt]:
        """Store events durably, all of one call in one transaction. Receipts in the order of the events.

        Call it on the event loop; from a worker thread through `anyio.from_thread.run(intake.submit, events)`.
        `RateLimited` when too many events wait, `Unavailable` when the store does not answer or the service is stopping; nothing was kept then.
        """
        raise NotImplementedError
