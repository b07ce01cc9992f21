"""The client for threads."""

import atexit
import signal
import sys
import threading
import time
from typing import Any, Unpack

import httpx

from penstock_sdk import calls
from penstock_sdk.sending import Sending

EXIT_S = 10.0  # how long the end of the process waits for events to be delivered


class Penstock(Sending):
    """Sends events from a thread of its own. Options: see `Sending`.

    What waits is delivered when the process ends, also by SIGTERM if the main thread makes the
    client and the program has no handler of its own.
    """

    def __init__(self, host: str, **options: Any) -> None:
        super().__init__(host, **options)
        self._http = httpx.Client(**self._options)
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._deliver, name="penstock", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        _exit_at_sigterm()

    def __enter__(self) -> "Penstock":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def flush(self, timeout_s: float = EXIT_S) -> bool:
        """Wait until everything is answered for. False if something still waits after the time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._changed.notify_all()
            while self.waiting:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self, timeout_s: float = EXIT_S) -> bool:
        """Deliver what waits and stop. False if something is left, which `spill_to` keeps."""
        is_empty = self.flush(timeout_s)
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        self._http.close()
        atexit.unregister(self.close)
        return is_empty

    def results(self, funnel_id: str, **query: Unpack[calls.ResultsQuery]) -> dict[str, Any]:
        """The results of a saved funnel. `PenstockError`, or httpx's errors without an answer."""
        return self._answer(calls.results(self._http, funnel_id, query))

    def import_file(self, content: bytes, *, file_name: str | None = None) -> dict[str, Any]:
        """Start an import of NDJSON. Ask `import_state` with its `id` how far it is."""
        return self._answer(calls.import_file(self._http, self._website_id, content, file_name))

    def import_state(self, import_id: str) -> dict[str, Any]:
        return self._answer(self._http.build_request("GET", f"/api/imports/{import_id}"))

    def _answer(self, request: httpx.Request) -> dict[str, Any]:
        return calls.read_answer(self._http.send(request))

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _deliver(self) -> None:
        while not self._is_closing:
            wait_s = self._send_next()
            with self._changed:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_closing, wait_s)
                self._changed.wait_for(lambda: self._is_closing or self.waiting)

    def _send_next(self) -> float:
        """Send one request. The seconds to wait before the next."""
        request = self._delivery.next_request()
        if request is None:
            return 0.0
        try:
            response = self._http.post(request.path, json=request.body)
        except (httpx.HTTPError, RuntimeError):  # the latter: `close` was faster
            return self._delivery.failed()
        return self._delivery.answered(request, response)


def _exit_at_sigterm() -> None:
    """SIGTERM ends the program in an orderly way, unless it has a handler of its own."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
