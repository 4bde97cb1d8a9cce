"""Memory and threads: what the process holds, what it may hold, and how many threads work.

A memory limit is on the whole process, as a user sees it from outside: the interpreter, the
libraries, the table and all that a method makes of it. What is about to be made is compared with
what is left of the limit, before it is made. One GB is 2**30 bytes, everywhere.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import ThreadpoolController

from bigdag.errors import MemoryLimitError, ParameterError

__all__ = [
    "SharedLimit",
    "blas_threads",
    "bytes_of",
    "container_limit",
    "format_bytes",
    "memory_budget",
    "memory_held",
    "memory_left",
    "n_threads",
    "require_memory",
]

_UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_UNITS |= {unit[0] + "IB": size for unit, size in _UNITS.items()}
_ADDRESSES_OF_A_THREAD = 128 * 2**20  # that its stack, its heap and its BLAS reserve
_SHARE = 0.8  # of the memory that is free, which a fit may take unless it is told otherwise


# ------------------------------------------------------------------ amounts of memory


def bytes_of(amount: float | str) -> int:
    """Return an amount of memory in bytes.

    Parameters
    ----------
    amount : float or str
        A number of bytes, or text such as "4GB" or "500 MB". One GB is 2**30 bytes, as in "4GiB".

    Examples
    --------
    >>> bytes_of("1.5 GB")
    1610612736
    """
    if isinstance(amount, str):
        text = amount.strip().upper()
        number = text.rstrip("KMGTIB")
        unit = text[len(number) :]
        try:
            value = float(number) * _UNITS.get(unit, 1 if unit in {"", "B"} else float("nan"))
        except ValueError:
            value = float("nan")
    else:
        value = float(amount)
    if not 0 < value < 2**63:
        raise ParameterError(
            "memory_limit must be a positive number of bytes or a text such as '4GB'. "
            f"Got {amount!r} instead."
        )
    return int(value)


def format_bytes(amount: float) -> str:
    """Return an amount of memory as text.

    Examples
    --------
    >>> format_bytes(3.2e9)
    '2.98 GB'
    """
    for unit in ("TB", "GB", "MB"):
        if amount >= _UNITS[unit]:
            return f"{amount / _UNITS[unit]:.3g} {unit}"
    if amount >= _UNITS["KB"] or not amount:
        return f"{amount / _UNITS['KB']:.3g} KB"
    return "1 byte" if amount == 1 else f"{amount:.4g} bytes"


# ------------------------------------------------------------------ what is held, what may be


def memory_held() -> int:
    """Return the bytes of memory that the process holds now, as seen from outside.

    Where neither Linux nor the package psutil tells, it is the most that the process ever held.

    Examples
    --------
    >>> memory_held() > 10 * 2**20
    True
    """
    return _statm()[1]


def memory_budget(memory_limit: float | str | None = None) -> int:
    """Return the bytes that the whole process may hold.

    That is the limit, where there is one. Else it is what the process holds and four fifths of
    what is free: in the machine, under the limit of its container (cgroup), and under the limit of
    the shell (``ulimit -v``).

    Examples
    --------
    >>> memory_budget("2GB") == 2 * 2**30
    True
    """
    if memory_limit is not None:
        return bytes_of(memory_limit)
    free = [_free_in_machine(), _free_in_container(), _free_address_space()]
    return memory_held() + max(
        0, int(_SHARE * min(amount for amount in free if amount is not None))
    )


def memory_left(memory_limit: float | str | None = None) -> int:
    """Return the bytes that the process may still take; not below zero.

    Examples
    --------
    >>> memory_left("1KB")
    0
    """
    return max(0, memory_budget(memory_limit) - memory_held())


def require_memory(need: float, what: str, remedy: str, memory_limit: float | str | None) -> None:
    """Refuse what would take the process over its limit, before it is made.

    Parameters
    ----------
    need : float
        The bytes that are about to be taken.
    what : str
        What takes them, as the subject of the sentence.
    remedy : str
        What the user can do, as a sentence.
    memory_limit : float or str, optional
        The limit on the process; by default what the machine can spare.

    Raises
    ------
    MemoryLimitError
        If they do not fit.

    Examples
    --------
    >>> require_memory(2**40, "This table", "Use fewer columns.", "2GB")
    Traceback (most recent call last):
        ...
    bigdag.errors.MemoryLimitError: This table needs 1 TB of memory beside ... Use fewer columns.
    """
    budget, held = memory_budget(memory_limit), memory_held()
    if held + need <= budget:
        return
    if memory_limit is not None and held >= budget:  # however small the table is
        remedy = "Nothing fits beside what it holds: allow more memory."
    raise MemoryLimitError(
        f"{what} needs {format_bytes(need)} of memory beside the {format_bytes(held)} that the "
        f"process holds already, and it may hold {format_bytes(budget)} in all"
        f"{' (memory_limit)' if memory_limit is not None else ''}. {remedy}"
    )


def container_limit() -> int | None:
    """Return the memory limit of the container (cgroup) that the process runs in, if it has one.

    Examples
    --------
    >>> limit = container_limit()
    >>> limit is None or limit > 0
    True
    """
    limits = [limit for limit, _ in _cgroups()]
    return min(limits, default=None)


def _statm() -> tuple[int, int]:
    """Return the bytes of address space and of memory that the process has."""
    try:
        size, resident = Path("/proc/self/statm").read_text().split()[:2]
        page = os.sysconf("SC_PAGE_SIZE")
        return int(size) * page, int(resident) * page
    except (OSError, ValueError):
        pass
    try:
        import psutil

        about = psutil.Process().memory_info()
        return int(about.vms), int(about.rss)
    except ImportError:
        pass
    try:
        import resource
        import sys

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak *= 1 if sys.platform == "darwin" else 1024
        return peak, peak
    except ImportError:
        return 0, 0


def _free_in_machine() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration):
        pass
    try:
        import psutil

        return int(psutil.virtual_memory().available)
    except ImportError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return 4 * 2**30


def _free_in_container() -> int | None:
    free = [limit - used for limit, used in _cgroups()]
    return min(free, default=None)


def _free_address_space() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return None
    return soft - _statm()[0] - _ADDRESSES_OF_A_THREAD * n_threads(None)


def _cgroups(
    root: Path = Path("/sys/fs/cgroup"), about: Path = Path("/proc/self/cgroup")
) -> list[tuple[int, int]]:
    """Return limit and use of every group, from the process's own up, that has a memory limit."""
    try:
        lines = about.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        if controllers:
            top, names = root / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            top, names = root, ("memory.max", "memory.current")
        folder = top / path.lstrip("/")
        # Inside of a container the path may be that of the host: its own group is then at the top.
        for group in (folder, *folder.parents):
            try:
                limit, used = ((group / name).read_text().strip() for name in names)
                statistics = (group / "memory.stat").read_text()
            except OSError:
                limit, used, statistics = "max", "0", ""
            if limit.isdigit() and int(limit) < 2**60:
                found.append((int(limit), int(used) - _reclaimable(statistics)))
            if group == top:
                break
    return found


def _reclaimable(statistics: str) -> int:
    """Return the bytes of cached files in a group, which make room when it is needed."""
    numbers = dict(line.split()[:2] for line in statistics.splitlines() if " " in line)
    return int(numbers.get("total_inactive_file", numbers.get("inactive_file", 0)))


# ------------------------------------------------------------------ threads


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` stands for; None and -1 are all cores.

    Examples
    --------
    >>> n_threads(2)
    2
    """
    if n_jobs is None or n_jobs == -1:
        return int(joblib.cpu_count())
    if n_jobs < 1:
        raise ParameterError(f"n_jobs must be None, -1 or at least 1. Got {n_jobs} instead.")
    return n_jobs


class SharedLimit:
    """A number of threads of the whole process that several fits at once may want to set.

    Each use sets the least number that is wanted at the time, and never more than held before the
    first; when the last one ends, the number is what it was.

    Parameters
    ----------
    get : callable
        Returns what is to be restored: a number, or a list of them.
    put : callable
        Sets a number of threads, for each of those.
    restore : callable
        Sets what `get` returned.

    Examples
    --------
    >>> threads = [4]
    >>> limit = SharedLimit(lambda: threads[0], lambda n: threads.__setitem__(0, n),
    ...                     lambda n: threads.__setitem__(0, n))
    >>> with limit(1):
    ...     threads
    [1]
    >>> threads
    [4]
    """

    def __init__(
        self, get: Callable[[], Any], put: Callable[[int], Any], restore: Callable[[Any], Any]
    ) -> None:
        self._get, self._put, self._restore = get, put, restore
        self._lock = threading.Lock()
        self._wanted: list[int] = []
        self._before: Any = None

    @contextmanager
    def __call__(self, n: int) -> Iterator[None]:
        """Give a context in which at most `n` threads are used."""
        # Noted and set under one lock: else a use that begins as the last one ends would take what
        # that one has not restored yet for what was there before.
        with self._lock:
            if not self._wanted:
                self._before = self._get()
            self._wanted.append(n)
            self._set()
        try:
            yield
        finally:
            with self._lock:
                self._wanted.remove(n)
                self._set()

    @property
    def before(self) -> Any:
        """What is restored at the end."""
        return self._before

    def _set(self) -> None:
        if self._wanted:
            self._put(min(self._wanted))
        else:
            self._restore(self._before)


def _libraries() -> list[Any]:
    global _found
    if _found is None:
        _found = ThreadpoolController().select(user_api="blas").lib_controllers
    return _found


_found: list[Any] | None = None


def _put_blas(n: int) -> None:
    for library, before in zip(_libraries(), blas_threads.before):
        library.set_num_threads(min(n, before))


def _restore_blas(before: list[int]) -> None:
    for library, number in zip(_libraries(), before):
        library.set_num_threads(number)


# The libraries of numpy and scipy are loaded before any Gram is made.
blas_threads = SharedLimit(
    lambda: [library.get_num_threads() for library in _libraries()], _put_blas, _restore_blas
)
