"""Ctrl-C during a fit: the first asks it to end, as a deadline would; the second ends it at once.

A fit that is torn out of its work keeps the best graph that it had written down; one that is asked
keeps what it is working on, too. While a fit runs in the main thread, SIGINT therefore only asks,
unless the program has a handler of its own. :func:`ask_to_end` is for other signals.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Interrupt", "ask_to_end", "ends_like_ctrl_c", "interruptible"]


class Interrupt:
    """Whether the work under way has been asked to end."""

    def __init__(self) -> None:
        self.asked = False


class _Here(threading.local):
    interrupt: Interrupt | None = None


_here = _Here()


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Give what tells whether to end; a fit inside of a fit shares it.

    Examples
    --------
    >>> with interruptible() as interrupt:
    ...     ask_to_end()
    ...     interrupt.asked
    True
    """
    if _here.interrupt is not None:
        yield _here.interrupt
        return
    interrupt = _here.interrupt = Interrupt()
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, ask_to_end)
    try:
        yield interrupt
    finally:
        _here.interrupt = None
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def ask_to_end(*_: Any) -> None:
    """Ask this thread's work to end; a handler of signals.

    Raises
    ------
    KeyboardInterrupt
        If no fit is under way, or it has been asked before.
    """
    interrupt = _here.interrupt
    if interrupt is None or interrupt.asked:
        raise KeyboardInterrupt
    interrupt.asked = True


@contextmanager
def ends_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does: batch systems and closed terminals send them.

    A signal that the process was started to ignore, as by ``nohup``, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, ask_to_end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
