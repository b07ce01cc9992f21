"""Logs on stderr: lines for people at a terminal, JSON lines otherwise. Ours and the libraries' look the same."""

import logging
import sys
from typing import Any

import structlog

_SECRET_NAMES = frozenset({"authorization", "cookie", "key", "password", "secret", "setup_token", "token"})


def configure_logs(level: str) -> None:
    """level: debug, info, warning or error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_secrets,
    ]
    if sys.stderr.isatty():
        # Without local variables in traces: they may hold passwords and keys.
        rendering: list[Any] = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    else:
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering]
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for chatty in ("uvicorn", "alembic", "httpx", "httpcore", "clickhouse_connect"):
        logging.getLogger(chatty).setLevel("DEBUG" if level == "debug" else "WARNING")
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _without_secrets(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """A last line of defence: nothing of ours logs a secret on purpose."""
    return {name: "***" if name in _SECRET_NAMES else value for name, value in event.items()}
