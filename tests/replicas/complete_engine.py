"""Completes the embedded engine so that it can run a replica. It fits one build of the engine.

The engine has the code for replicated tables, but three things are set only at the start of a
ClickHouse server, and one handler is not reachable. This module sets them in the memory of the
process that loads it, at exact offsets of that build:

- the server's UUID, without which servers end each other's sessions with ZooKeeper;
- the address at which other replicas fetch parts, and its credentials, which are empty;
- the handler for these requests, which the second `listen_host` gets.
"""

import ctypes
import mmap
import platform
import struct
import sys
from importlib.metadata import version
from pathlib import Path
from uuid import UUID

ENGINE = "chdb-core 26.9.0 on x86-64 Linux"
"""The engine whose offsets this module knows."""

HOST = "127.0.0.2"
"""The address at which replicas fetch parts from each other; the second `listen_host`."""

_VERSION = "26.9.0"
_SERVER_UUID = 0x21FCD228
_GET_ADDRESS = 0x147217C0, bytes.fromhex("4156534883ec484c8b36490fbe8e67010000")
"""Offset and first bytes of `Context::getInterserverIOAddress`."""
_CREATE_HANDLER = 0x19097340, bytes.fromhex("554157415641554154534881ec68010000")
"""Offset and first bytes of `createHandlerFactory`."""
_HANDLER = b"InterserverIOHTTPHandler-factory"
_LIBRARY = ctypes.CDLL(None)
# Positions in the page of the added code and data.
_CALLS, _NAME, _NAME_TEXT, _CREDENTIALS, _PAIR, _NO_USER = 4096, 4160, 4224, 4608, 4736, 4784


def is_known_engine() -> bool:
    """Whether this module knows the offsets of the installed engine."""
    is_known_machine = (sys.platform, platform.machine()) == ("linux", "x86_64")
    return is_known_machine and version("chdb-core") == _VERSION


_pages = list[mmap.mmap]()
"""Pages that the engine calls. They stay in memory until the process ends."""


class _Page:
    """A page of code and data that the engine calls."""

    def __init__(self, base: int) -> None:
        """base: address at which the engine's library begins."""
        self._base, self._memory = base, mmap.mmap(-1, 8192, prot=7)
        _pages.append(self._memory)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def put(self, at: int, data: bytes) -> None:
        self._memory[at : at + len(data)] = data

    def run_before(self, function: tuple[int, bytes], code: bytes, at: int) -> None:
        """Let the engine run this code each time before the function."""
        offset, first = function
        start = self._base + offset
        if ctypes.string_at(start, len(first)) != first:
            raise SystemExit(f"this is not the engine of {ENGINE}")
        self.put(at, code + first + _jump(start + len(first)))
        assert _LIBRARY.mprotect(ctypes.c_void_p(start & ~4095), ctypes.c_size_t(8192), 7) == 0
        ctypes.memmove(start, _jump(self.address + at), 13)
        assert _LIBRARY.mprotect(ctypes.c_void_p(start & ~4095), ctypes.c_size_t(8192), 5) == 0


def complete_engine(library: str, fetch_port: int, server: UUID) -> None:
    """Complete the engine in this process.

    library: path of its library, which is loaded. fetch_port: port at which other replicas fetch
    parts, which is the port for HTTP at `HOST`. server: identifies the server in ZooKeeper.
    """
    lines = Path("/proc/self/maps").read_text().splitlines()
    base = next(int(line.split("-")[0], 16) for line in lines if library in line)
    page = _Page(base)
    upper, lower = server.int >> 64, server.int & (1 << 64) - 1
    ctypes.memmove(base + _SERVER_UUID, _word(upper) + _word(lower), 16)
    # One pair of user and password is allowed, and both are empty.
    page.put(_CREDENTIALS + 48, _word(page.address + _PAIR) + _word(page.address + _NO_USER) * 2)
    code = b"\x48\x8b\x06"  # mov rax, [rsi]: the part of the context that all queries share
    for offset, text in ((0x150, HOST.encode()), (0x170, b"http")):
        short = text.ljust(23, b"\0") + bytes([len(text)])  # a std::string without allocation
        for at in range(0, 24, 8):
            code += _store(short[at : at + 8], offset + at)
    code += b"\x66\xc7\x80" + struct.pack("<iH", 0x168, fetch_port)  # mov word [rax + 0x168]
    code += _store(_word(page.address + _CREDENTIALS), 0x1B0)
    page.run_before(_GET_ADDRESS, code, 0)
    page.put(_NAME, _word(page.address + _NAME_TEXT) + _word(len(_HANDLER)) + _word(1 << 63 | 33))
    page.put(_NAME_TEXT, _HANDLER + b"\0")
    # From the second call on, the engine creates a handler of another name.
    code = b"\x48\xb8" + _word(page.address + _CALLS) + b"\x48\xff\x00\x48\x83\x38\x02\x72\x0a"
    page.run_before(_CREATE_HANDLER, code + b"\x48\xb9" + _word(page.address + _NAME), 1024)


def _word(number: int) -> bytes:
    return struct.pack("<Q", number)


def _jump(address: int) -> bytes:
    return b"\x49\xbb" + _word(address) + b"\x41\xff\xe3"  # movabs r11, address; jmp r11


def _store(word: bytes, offset: int) -> bytes:
    return b"\x48\xb9" + word + b"\x48\x89\x88" + struct.pack("<i", offset)  # mov [rax + offset]
