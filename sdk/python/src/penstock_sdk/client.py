"""The client for threads."""

import atexit
import signal
import sys
import threading
from typing import Any

import httpx

from penstock_sdk.calls import Json, read_answer
from penstock_sdk.sending import Sending

EXIT_S = 10.0  # how long the end of the process waits for events to be delivered


class Penstock(Sending[Json]):
    """Sends events from a thread of its own. Options: see `Sending`.

    What waits is delivered when the process ends, also by SIGTERM if the main thread makes the
    client and the program has no handler of its own.
    """

    def _open(self, **http_options: Any) -> None:
        self._http = httpx.Client(**http_options)
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
        with self._changed:
            return self._changed.wait_for(lambda: not self.waiting, timeout_s)

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

    def _ask(self, method: str, url: str, **sent: Any) -> Json:
        return read_answer(self._http.request(method, url, **sent))

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
            return self._delivery.answered(request, response)
        except Exception:  # none ends the delivery, also no answer that nobody thought of
            return self._delivery.failed()


def _exit_at_sigterm() -> None:
    """SIGTERM ends the program in an orderly way, unless it has a handler of its own."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
