"""The storage for an export's files: a folder, or a bucket in Amazon S3 or a compatible service.

Both give a file its name only once it is complete. In a folder it is then on disk; a bucket has
accepted it.
"""

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from penstock.base.durable_files import sync_folder, write_durably

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

SCHEME = "s3://"
MANIFEST = "manifest.json"
"""The file that makes an export complete."""
_PART = ".part"
_LIST_EVERY_S = 5.0
_UPLOAD_BYTES = 8 * 1024 * 1024
_CONNECT_S, _REQUEST_S = 10, 60
"""Timeouts for opening a connection, and for a request without any progress, in seconds. Each
request is repeated up to three times.
"""
_TIMED_OUT = "curlCode: 28"
_REFUSED = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "INVALID_SIGNATURE",
    "SIGNATURE_DOES_NOT_MATCH",
    "UNRECOGNIZED_CLIENT",
    "HTTP status 403",
)


class ExportFailed(Exception):
    """The files cannot be written or read. The message is shown to people."""


class Storage(Protocol):
    """Files of one export, by path. Errors are `OSError`. `str` returns its name for people."""

    @property
    def destination(self) -> str:
        """The name that the service records. It has no credentials."""

    def opened(self) -> AbstractContextManager[None]:
        """Use it during the context. Raises `ExportFailed` if another export uses the folder."""

    def is_empty(self) -> bool: ...

    def contains(self, path: str) -> bool:
        """Whether a path stays inside the folder or under the prefix."""

    def remove_parts(self, is_own: Callable[[str], bool]) -> None:
        """Remove the parts of an interrupted run. is_own: whether an export writes this path."""

    def sizes(self, folder: str) -> Mapping[str, int]:
        """Return the size of each file in a folder and its subfolders, in bytes, by path."""

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes, or None if there is no file."""

    def read(self, path: str) -> bytes | None: ...

    def part(self, path: str) -> Path:
        """Return the local file that `finish` turns into the file of this path."""

    def finish(self, part: Path, path: str) -> None:
        """Give a part that is on disk its name. A file with this name is replaced at once."""

    def replace(self, path: str, content: bytes) -> None: ...

    def begin_list(self, path: str, content: bytes) -> None:
        """Write the file that `append` extends."""

    def append(self, line: bytes) -> None:
        """Add a line to the list. A crash can lose the last lines."""

    def require_exclusive(self) -> None:
        """Raise `ExportFailed` if another export has replaced the list."""

    def publish(self, path: str, content: bytes) -> None:
        """Write the file that makes the export complete. Raises `ExportFailed` and removes the file
        again if another export has begun.
        """

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""


class Folder:
    """A folder. It is locked while it is open."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    @property
    def destination(self) -> str:
        return f"{gethostname()}:{self.root.absolute()}"

    @contextmanager
    def opened(self) -> Iterator[None]:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.root, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExportFailed(f"another export into {self} is running") from None
            yield
        finally:
            os.close(descriptor)

    def is_empty(self) -> bool:
        return all(path.name == "lost+found" for path in self.root.iterdir())

    def size(self, path: str) -> int | None:
        try:
            return (self.root / path).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    def part(self, path: str) -> Path:
        target = self.root / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return target.with_name(target.name + _PART)

    def finish(self, part: Path, path: str) -> None:
        target = self.root / path
        part.rename(target)
        sync_folder(target.parent)

    def replace(self, path: str, content: bytes) -> None:
        part = self.part(path)
        write_durably(part, content)
        self.finish(part, path)

    def begin_list(self, path: str, content: bytes) -> None:
        self.replace(path, content)
        self._list = self.root / path

    def append(self, line: bytes) -> None:
        with self._list.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def require_exclusive(self) -> None:
        """Do nothing: the folder is locked."""

    def publish(self, path: str, content: bytes) -> None:
        self.replace(path, content)

    def remove(self, path: str) -> None:
        file = self.root / path
        if file.exists():
            file.unlink()
            sync_folder(file.parent)

    def contains(self, path: str) -> bool:
        return (self.root / path).resolve().is_relative_to(self.root.resolve())

    def remove_parts(self, is_own: Callable[[str], bool]) -> None:
        for part in self.root.rglob(f"*{_PART}"):
            if is_own(str(part.relative_to(self.root)).removesuffix(_PART)):
                part.unlink()

    def sizes(self, folder: str) -> Mapping[str, int]:
        return {
            str(path.relative_to(self.root)): path.stat().st_size
            for path in (self.root / folder).rglob("*")
            if path.is_file()
        }


class Bucket:
    """The objects of a bucket whose names begin with a prefix. It has no lock.

    Credentials and region come from the environment variables and profiles of AWS.
    """

    def __init__(self, url: str, endpoint_url: str | None) -> None:
        """Raises `ExportFailed` for a URL that names no bucket, or a wrong endpoint."""
        self._bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
        self._prefix = prefix.strip("/")
        if not self._bucket or any(sign in url for sign in "@?#"):
            raise ExportFailed(
                "write the destination as s3://bucket/prefix, without credentials; they come from "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from AWS_PROFILE"
            )
        self._endpoint_url = endpoint_url
        if endpoint_url is not None:
            parts = urlsplit(endpoint_url)
            if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
                raise ExportFailed(
                    "--endpoint-url: Must be an http or https URL without credentials"
                )
        self._list_path = ""
        self._list = self._stored = b""
        self._next_s = 0.0

    def __str__(self) -> str:
        return f"{SCHEME}{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def destination(self) -> str:
        return str(self)

    @contextmanager
    def opened(self) -> Iterator[None]:
        with TemporaryDirectory(prefix="penstock-export-") as folder:
            self._folder = Path(folder)
            self._system = _connect(self._endpoint_url)
            with self._explained():
                is_reachable = True
                try:
                    yield
                except OSError:
                    is_reachable = False
                    raise
                finally:
                    # The next run writes again what the list lacks.
                    with suppress(OSError, ExportFailed):
                        if is_reachable:
                            self._store_list()

    def is_empty(self) -> bool:
        """List one folder at a time, so that a full bucket needs few requests."""
        from pyarrow.fs import FileSelector, FileType

        folders = [self._key("")]
        while folders:
            selector = FileSelector(folders.pop(), allow_not_found=True)
            for info in self._system.get_file_info(selector):
                if info.type is FileType.Directory:
                    folders.append(info.path)
                elif info.size:
                    return False
        return True

    def contains(self, path: str) -> bool:
        return not path.startswith("/") and ".." not in path.split("/")

    def remove_parts(self, is_own: Callable[[str], bool]) -> None:
        """Do nothing: parts are in a temporary folder of this machine."""

    def sizes(self, folder: str) -> Mapping[str, int]:
        from pyarrow.fs import FileSelector, FileType

        start = len(self._key("")) + 1
        selector = FileSelector(self._key(folder), allow_not_found=True, recursive=True)
        return {
            info.path[start:]: info.size
            for info in self._system.get_file_info(selector)
            if info.type is FileType.File
        }

    def size(self, path: str) -> int | None:
        size: int | None = self._system.get_file_info(self._key(path)).size
        return size

    def read(self, path: str) -> bytes | None:
        try:
            with self._system.open_input_stream(self._key(path)) as source:
                content: bytes = source.read()
        except FileNotFoundError:
            return None
        return content

    def part(self, path: str) -> Path:
        return self._folder / f"file{Path(path).suffix}"

    def finish(self, part: Path, path: str) -> None:
        # The object appears when all its parts are uploaded.
        with (
            _deferred_signals(),
            part.open("rb") as source,
            self._system.open_output_stream(self._key(path)) as out,
        ):
            shutil.copyfileobj(source, out, _UPLOAD_BYTES)
        if self.size(path) != part.stat().st_size:
            raise ExportFailed(f"{path} is not complete in {self} after its upload; try again")
        part.unlink()

    def replace(self, path: str, content: bytes) -> None:
        part = self.part(path)
        part.write_bytes(content)
        self.finish(part, path)

    def begin_list(self, path: str, content: bytes) -> None:
        self.replace(path, content)
        self._list_path, self._list = path, content
        self._stored, self._next_s = content, time.monotonic() + _LIST_EVERY_S

    def append(self, line: bytes) -> None:
        """Add a line. An object cannot grow, so it is written again every few seconds."""
        self._list += line
        if time.monotonic() >= self._next_s:
            self._store_list()

    def require_exclusive(self) -> None:
        self._require_own_list()
        self._store_list()

    def publish(self, path: str, content: bytes) -> None:
        """PyArrow has no conditional writes, so this compares afterwards."""
        self.replace(path, content)
        try:
            self._require_own_list(published=content)
        except ExportFailed:
            if self.read(path) == content:
                self.remove(path)
            raise

    def remove(self, path: str) -> None:
        if path == self._list_path:
            self._list_path = ""
        if self.size(path) is not None:
            self._system.delete_file(self._key(path))

    def download(self, path: str, target: Path) -> None:
        """Copy an object into a local file. Raises `FileNotFoundError`."""
        with (
            self._system.open_input_stream(self._key(path)) as source,
            target.open("wb") as out,
        ):
            shutil.copyfileobj(source, out, _UPLOAD_BYTES)

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self._bucket, self._prefix, path) if part)

    def _store_list(self) -> None:
        if self._list_path and self._list != self._stored:
            self._require_own_list()
            self.begin_list(self._list_path, self._list)

    def _require_own_list(self, published: bytes | None = None) -> None:
        """Raise `ExportFailed` if another export has begun since. It may have ended, too.

        An export that ended when this one began may have removed the list, which is then restored.
        published: the manifest that this export has written.
        """
        stored = self.read(self._list_path)
        if stored is None and self.read(MANIFEST) in (None, published):
            self.begin_list(self._list_path, self._list)
        elif stored != self._stored:
            self._list_path = ""  # It belongs to the other export.
            raise ExportFailed(f"another export into {self} has begun; run one after the other")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of S3 into `ExportFailed`."""
        try:
            yield
        except (OSError, ValueError) as error:
            text = str(error)
            if "AWS Error" not in text:
                raise
            if "NO_SUCH_BUCKET" in text:
                message = f"the bucket {self._bucket} does not exist; create it first"
            elif any(code in text for code in _REFUSED):
                message = (
                    f"S3 refused access to {self}; check AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and their rights for the bucket"
                )
            elif _TIMED_OUT in text:
                message = f"S3 does not respond for {self}; run the same command again to continue"
            elif "NETWORK_CONNECTION" in text:
                message = f"S3 cannot be reached for {self}; check --endpoint-url"
            else:
                message = f"S3 failed for {self}: {text.partition('AWS Error ')[2][:200]}"
            raise ExportFailed(message) from error


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Handle SIGINT and SIGTERM afterwards, because PyArrow completes an interrupted upload."""
    received: list[int] = []
    handlers = {
        number: signal.signal(number, lambda each, _: received.append(each))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for each in received:
            signal.raise_signal(each)


def storage_of(destination: str, endpoint_url: str | None) -> Folder | Bucket:
    """Return the folder, or the bucket of a URL such as s3://bucket/prefix.

    Raises `ExportFailed`.
    """
    if destination.startswith(SCHEME):
        return Bucket(destination, endpoint_url)
    if destination.lower().startswith("s3:"):
        raise ExportFailed("write a bucket as s3://bucket/prefix, with two slashes")
    if "://" in destination:
        raise ExportFailed("the destination must be a folder or s3://bucket/prefix")
    return Folder(Path(destination))


def _connect(endpoint_url: str | None) -> "S3FileSystem":
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    return S3FileSystem(
        endpoint_override=endpoint_url,
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=3),
        background_writes=False,
        check_directory_existence_before_creation=True,
    )
