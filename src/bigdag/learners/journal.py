"""What one fit has done so far, in a file, so that the same fit goes on after whatever ended it.

A fit is a sequence of steps, each a function of what it begins with. So nothing of its course has
to be kept: a fit that is begun again asks, before each step, whether it was done from the same
beginning before. Steps are named by a digest of what they begin with. What is kept are the pieces
of passes over the variables (:class:`Journalled` stands between a Gram and who does them), and how
far each descent of the search has come.

The file is a list of records, each with digests of its head and of what follows. One that was cut
short or is damaged is as good as not there: an older one of the same key counts, and reading goes
on at the next whole head. A file belongs to one table, one learner with its parameters, and one
version.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from bigdag.engine.executor import Arrays, Executor, Piece, Step, Task, current, executing
from bigdag.engine.limits import Limits
from bigdag.errors import BigdagError, ParameterError
from bigdag.writing import whole_file

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from bigdag.engine.gram import Gram
    from bigdag.learners.run import Run

__all__ = ["Journal", "Journalled", "digest_of_parts", "locked", "read_about", "without_journal"]

_log = logging.getLogger("bigdag")
_FORMAT = b"bigdag fit 2\n"
_MARK = b"\xb1\x9dRECORD"  # begins each head, so that one can be found after what is damaged
_HEAD = struct.Struct("<8s16s16sQ16s")  # it, the key, digest and length of the payload, own digest
_CHUNK = 2**20  # bytes that are read at a time to check them
_ABOUT = b"about".ljust(16)
_SECONDS = 1.0  # between two writes, at least
_SLACK = 2**26  # bytes of records that newer ones replace, beyond which the file is written anew


class _Head(NamedTuple):
    """What stands before a payload."""

    key: bytes
    digest: bytes
    size: int


class _Place(NamedTuple):
    """Where a record is: its payload."""

    at: int
    size: int


class Journal:
    """A file of arrays by name, which grows by whole records.

    Parameters
    ----------
    path : path-like
        The file; it is made if it is not there.
    about : mapping
        What the fit is of, as JSON would give it back.
    explain : callable
        Takes two such descriptions, and says in which entries they differ, or None.

    Raises
    ------
    ParameterError
        If the file is none that a fit wrote, is of another fit, cannot be written, or another fit
        under way has it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(f"{folder}/c", {"table": "t"}, lambda then, now: None) as journal:
    ...         journal.keep(b"0" * 16, (np.arange(3),))
    ...     with Journal(f"{folder}/c", {"table": "t"}, lambda then, now: None) as journal:
    ...         journal.find(b"0" * 16)
    (array([0, 1, 2]),)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        about: Mapping[str, Any],
        explain: Callable[[Mapping[str, Any], Mapping[str, Any]], str | None],
    ) -> None:
        self.path = Path(path)
        self.about = dict(about)
        if self.path.exists():
            self.about = read_about(self.path)
            if (told := explain(self.about, about)) is not None:
                raise ParameterError(
                    f"The checkpoint {self.path} is of another fit: {told}. Give another name, or "
                    "remove the file to begin anew."
                )
        else:
            with whole_file(self.path) as new:
                new.write(_FORMAT + _record(_ABOUT, json.dumps(self.about).encode()))
        self._file = locked(self.path)
        self._places: dict[bytes, _Place] = {}
        self._new: dict[bytes, bytes] = {}  # payloads that are still to be written
        self._replaced = 0
        self._writes = self._shortens = True
        self._end = 0  # of the last whole record
        self._read()
        self._last = -math.inf
        self._lock = threading.RLock()  # of all of the above, as the timer is another thread
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def find(self, key: bytes) -> Arrays | None:
        """Return what was kept under a key; None where nothing was, or it is damaged."""
        with self._lock:
            if key in self._new:
                return _unpacked(self._new[key])
            if (place := self._places.get(key)) is None:
                return None
            try:
                record = _part(self._file, place.at - _HEAD.size, _HEAD.size + place.size)
            except OSError:
                record = b""
            head, payload = _head_in(record), record[_HEAD.size :]
            if head is None or _digest(key, payload) != head.digest:
                del self._places[key]
                return None
        return _unpacked(payload)

    def keep(self, key: bytes, arrays: Arrays) -> None:
        """Keep arrays under a key, in place of what was kept there; written within a second."""
        if not self._writes:
            return
        payload = _packed(arrays)
        with self._lock:
            self._new[key] = payload
            wait = self._last + _SECONDS - time.monotonic()
            if wait <= 0:
                self.write()
            elif self._timer is None:  # whatever takes long now, and keeps nothing
                self._timer = threading.Timer(wait, self.write)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """Write what is new."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._new and self._writes:
                self._append()
            self._new.clear()

    def close(self) -> None:
        """Write what is new, and close the file."""
        with self._lock:
            self.write()
            self._writes = False
            with suppress(OSError):
                self._file.close()

    def _append(self) -> None:
        """Write what is new at the end, and make the file shorter where that is due."""
        records = [_record(key, payload) for key, payload in self._new.items()]
        try:
            _put(self._file, self._end, b"".join(records))
        except OSError as error:  # the fit is not lost for that
            self._writes = False
            with suppress(OSError):
                self._file.truncate(self._end)
            _log.warning("the checkpoint %s cannot be written any more: %s", self.path, error)
            return
        for key, record in zip(self._new, records):
            self._note(key, self._end, len(record) - _HEAD.size)
            self._end += len(record)
        self._shorten()
        self._last = time.monotonic()

    def _note(self, key: bytes, at: int, size: int) -> None:
        if (before := self._places.get(key)) is not None:
            self._replaced += _HEAD.size + before.size
        self._places[key] = _Place(at + _HEAD.size, size)

    def _read(self) -> None:
        """Find all whole records; what is between and after them stays, and is not read."""
        self._end = self._file.seek(0, os.SEEK_END)
        at = len(_FORMAT)
        while at + _HEAD.size <= self._end:
            head = _head_in(_part(self._file, at, _HEAD.size))
            if head is not None and self._is_whole(head, at):
                self._note(head.key, at, head.size)
                at += _HEAD.size + head.size
            else:
                following = self._next_mark(at + 1)
                self._replaced += following - at
                at = following

    def _is_whole(self, head: _Head, at: int) -> bool:
        """Tell whether all of a record is there as it was written."""
        first, last = at + _HEAD.size, at + _HEAD.size + head.size
        if last > self._end:
            return False
        digest = hashlib.blake2b(head.key, digest_size=16)
        for a in range(first, last, _CHUNK):
            digest.update(_part(self._file, a, min(_CHUNK, last - a)))
        return digest.digest() == head.digest

    def _next_mark(self, at: int) -> int:
        """Return where the next head may begin, or the end of the file."""
        while at < self._end:
            found = _part(self._file, at, _CHUNK).find(_MARK)
            if found >= 0:
                return at + found
            at += _CHUNK - len(_MARK) + 1  # a mark may lie across two chunks
        return self._end

    def _shorten(self) -> None:
        """Write the file anew where much of it was replaced by newer records."""
        if not self._shortens or self._replaced < max(_SLACK, self._end // 2):
            return
        places, at, file = {}, len(_FORMAT), None
        try:
            with whole_file(self.path, force=True) as new:
                new.write(_FORMAT)
                for key, place in self._places.items():
                    size = _HEAD.size + place.size
                    new.write(_part(self._file, place.at - _HEAD.size, size))
                    places[key] = _Place(at + _HEAD.size, place.size)
                    at += size
                new.flush()
                file = locked(Path(new.name))  # before it takes the name of the other
        except (OSError, BigdagError) as error:  # the long file has all that the short one would
            self._shortens = False
            if file is not None:
                file.close()
            _log.warning("the checkpoint %s cannot be made shorter: %s", self.path, error)
            return
        self._file.close()
        self._file, self._places, self._replaced, self._end = file, places, 0, at


def read_about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what the fit of a journal is of.

    Raises
    ------
    ParameterError
        If the file is none that a fit wrote.
    """
    try:
        with open(path, "rb") as file:
            if file.read(len(_FORMAT)) != _FORMAT:
                raise ValueError("of another kind")
            head = _head_in(file.read(_HEAD.size))
            if head is None or head.key != _ABOUT or head.size > 2**24:
                raise ValueError("of another kind")
            payload = file.read(head.size)
            if _digest(head.key, payload) != head.digest:
                raise ValueError("damaged")
            about: dict[str, Any] = json.loads(payload)
            return about
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"{os.fspath(path)} is no checkpoint that one fit of this version wrote, or it is "
            "damaged. Give another name, or remove the file to begin anew."
        ) from error


class Journalled:
    """An executor that asks a journal first, and tells it what another one has done.

    Parameters
    ----------
    inner : Executor
        Does what was not done before.
    journal : Journal
        What was.

    Attributes
    ----------
    run : Run or None
        The fit under way, whose history is kept with its steps.
    """

    def __init__(self, inner: Executor, journal: Journal) -> None:
        self.inner, self.journal = inner, journal
        self.run: Run | None = None
        self._digests: WeakKeyDictionary[Gram, bytes] = WeakKeyDictionary()

    def admit(self, gram: Gram) -> None:
        """Refuse what the other one would refuse."""
        self.inner.admit(gram)

    def results(
        self,
        gram: Gram,
        task: Task,
        pieces: Sequence[Piece],
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[int, Arrays]]:
        """Yield the number and the result of each piece: those done before, and then the others."""
        name = digest_of_parts("pieces", type(task).__qualname__, task, self._identity(gram))
        keys = [digest_of_parts(name, first, last) for first, last in pieces]
        missing = []
        for number, key in enumerate(keys):
            if (found := self.journal.find(key)) is None:
                missing.append(number)
            else:
                yield number, found
        if not missing:
            return
        rest = [pieces[number] for number in missing]
        for at, result in self.inner.results(gram, task, rest, stop):
            if stop is None or not stop():  # else it may not be whole
                self.journal.keep(keys[missing[at]], result)
            yield missing[at], result

    def step(self, gram: Gram, name: str, *inputs: Any) -> Step:
        """Return a step of the search, which knows how far it came before."""
        key = digest_of_parts("step", name, inputs, self._identity(gram))
        found = self.journal.find(key)
        if found is not None:
            if self.run is not None:
                self.run.restore(found[-1].tobytes())
            found = found[:-1]

        def keep(made: Callable[[], Sequence[Any]]) -> None:
            story = b"" if self.run is None else self.run.story()
            arrays = [np.asarray(array) for array in made()]
            self.journal.keep(key, (*arrays, np.frombuffer(story, np.uint8)))

        return Step(found, keep)

    def forget(self, gram: Gram) -> None:
        """Tell the other one."""
        self.inner.forget(gram)

    def _identity(self, gram: Gram) -> tuple[Any, ...]:
        """Return what tells a Gram from all others: a digest of its values, made once."""
        if gram not in self._digests:
            self._digests[gram] = digest_of_parts(gram.C if gram.Z is None else gram.Z)
        values = self._digests[gram]
        return gram.n_samples, gram.d, gram.C is not None, gram.sd, values


@contextmanager
def without_journal() -> Iterator[None]:
    """Give a context whose Grams write into no journal of a fit around it.

    Examples
    --------
    >>> with without_journal():
    ...     isinstance(current(), Journalled)
    False
    """
    executor = current()
    while isinstance(executor, Journalled):
        executor = executor.inner
    with executing(executor):
        yield


# ------------------------------------------------------------------ files


def _opened(path: Path) -> BinaryIO:
    """Open a file to read and write it, without a buffer: what failed must not be tried again."""
    try:
        if not path.stat().st_mode & stat.S_IWUSR:
            raise PermissionError("it is read-only")
        return cast(BinaryIO, open(path, "r+b", buffering=0))
    except OSError as error:
        raise ParameterError(
            f"The checkpoint {path} cannot be opened for writing: {error.strerror or error}. Make "
            "it writable (chmod u+w), or give another name."
        ) from error


def locked(path: Path) -> BinaryIO:
    """Open a file to read and write it, for nobody else until it is closed.

    Raises
    ------
    ParameterError
        If it cannot be written, or another fit under way has it.
    """
    file = _opened(path)
    if sys.platform == "win32":
        return file
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise ParameterError(
            f"The checkpoint {path} is in use by another fit that is under way. Wait until that "
            "has ended, or give another name."
        ) from error
    except OSError:
        return file  # a file system without such locks
    if not os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
        file.close()
        return locked(path)  # it was replaced by a shorter one before it was locked
    return file


def _part(file: BinaryIO, at: int, size: int) -> bytes:
    """Return some bytes of a file; fewer where it ends before."""
    file.seek(at)
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _put(file: BinaryIO, at: int, content: bytes) -> None:
    """Write all of some bytes at a place of a file, and to the disk."""
    file.seek(at)
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
    os.fsync(file.fileno())


# ------------------------------------------------------------------ records


def _digest(key: bytes, payload: bytes) -> bytes:
    return hashlib.blake2b(key + payload, digest_size=16).digest()


def _record(key: bytes, payload: bytes) -> bytes:
    """Return a payload with its head before it."""
    head = _HEAD.pack(_MARK, key, _digest(key, payload), len(payload), bytes(16))
    return head[:-16] + _digest(b"", head[:-16]) + payload


def _head_in(record: bytes) -> _Head | None:
    """Return the head that a record begins with; None where there is none, or it is damaged."""
    if len(record) < _HEAD.size:
        return None
    mark, key, digest, size, own = _HEAD.unpack(record[: _HEAD.size])
    if mark != _MARK or own != _digest(b"", record[: _HEAD.size - 16]):
        return None
    return _Head(key, digest, size)


def _packed(arrays: Arrays) -> bytes:
    """Return arrays as bytes: what they are, as JSON in a line, and their values."""
    whole = [np.ascontiguousarray(array) for array in arrays]
    about = json.dumps([[array.dtype.str, array.shape] for array in whole])
    return b"".join([about.encode(), b"\n", *(array.tobytes() for array in whole)])


def _unpacked(payload: bytes) -> Arrays:
    at = payload.index(b"\n") + 1
    arrays = []
    for kind, shape in json.loads(payload[: at - 1]):
        dtype, count = np.dtype(kind), math.prod(shape)
        array = np.frombuffer(payload, dtype, count, at)
        arrays.append(array.reshape(shape).copy())
        at += count * dtype.itemsize
    return tuple(arrays)


def digest_of_parts(*parts: Any) -> bytes:
    """Return a digest of arrays, numbers, text, and what consists of them.

    Examples
    --------
    >>> digest_of_parts("a", np.zeros(2)) == digest_of_parts("a", np.zeros(2))
    True
    """
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, parts)
    return digest.digest()


def _feed(digest: Any, value: Any) -> None:
    """Add a value to a digest: arrays, numbers, text, and what consists of them."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif sp.issparse(value):
        _feed(digest, (value.shape, value.indptr, value.indices, value.data))
    elif isinstance(value, Limits):
        pass  # the same in all of a fit
    elif is_dataclass(value):
        _feed(digest, tuple(getattr(value, field.name) for field in fields(value)))
    elif isinstance(value, tuple | list):
        digest.update(f"({len(value)}".encode())
        for one in value:
            _feed(digest, one)
    elif isinstance(value, bytes | str | int | float | bool | np.generic | None):
        digest.update(f"{type(value).__name__}{value!r};".encode())
    else:
        raise TypeError(f"no digest of {type(value).__name__}")
