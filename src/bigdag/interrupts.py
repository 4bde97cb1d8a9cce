"""Signals that ask bigdag to end: one handler and one state for the whole process.

The rule: the first signal asks a fit to end, as its deadline would, so that it keeps what it is
working on; where no fit is under way, it raises KeyboardInterrupt. The second one raises it in any
case. Signals within a second of the one before are part of it, as a terminal, a batch system and
timeout(1) often send several at once; but Ctrl-C again, as soon as a finger can, is a second one.
Signals that come while the main thread is in compiled code are obeyed, as one, when it is back.
While something is cleared away (:func:`undisturbed`), signals are counted, and obeyed when that is
done.

Contexts say which signals are handled: :func:`interruptible` around a fit, `ends_like_ctrl_c`
around a command, `terminable` around experiments, `exits_at_once` while a command is loaded.
Nested ones share the handler and the state. A handler that the program has installed itself is
left alone, and outside of the main thread, where Python runs no handlers, nothing is installed.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

__all__ = [
    "Interrupt", "ask_to_end", "ends_like_ctrl_c", "exits_at_once", "interruptible", "terminable",
    "undisturbed",
]  # fmt: skip

_BY_SIGINT = 128 + 2  # the exit code that a shell gives to what Ctrl-C has ended
_TOGETHER = 1.0  # seconds after one that was obeyed, within which signals are part of it
_BY_HAND = 0.03  # seconds that lie, at the least, between Ctrl-C and Ctrl-C


class Interrupt:
    """Whether the work under way has been asked to end."""

    def __init__(self) -> None:
        self.asked = False
        self.asked_at = -math.inf
        self.asked_by: int | None = None  # the number of a signal

    def ask(self, number: int | None = None) -> None:
        """Ask it to end, by a signal."""
        self.asked, self.asked_at, self.asked_by = True, time.monotonic(), number

    def came_with_it(self, number: int | None) -> bool:
        """Tell whether a signal that comes now is part of the one that asked."""
        by_hand = number == self.asked_by == signal.SIGINT
        return time.monotonic() < self.asked_at + (_BY_HAND if by_hand else _TOGETHER)


class _Here(threading.local):
    interrupt: Interrupt | None = None


class _State:
    """What is true of the whole process; only the main thread, which runs handlers, changes it."""

    def __init__(self) -> None:
        self.contexts = 0  # within which signals are ours
        self.raised: float | None = None  # when KeyboardInterrupt was raised last
        self.clearing = 0  # blocks of `undisturbed`
        self.held = 0  # signals that came meanwhile


_here = _Here()
_state = _State()


def ask_to_end(number: int | None = None, *_: Any) -> None:
    """Ask this thread's work to end; the handler of signals.

    Parameters
    ----------
    number : int, optional
        The signal.

    Raises
    ------
    KeyboardInterrupt
        If no fit is under way, or it has been asked before.
    """
    interrupt = _here.interrupt
    if interrupt is not None and not interrupt.asked:
        interrupt.ask(number)
    elif interrupt is not None and interrupt.came_with_it(number):
        pass
    elif not _in_main_thread():
        raise KeyboardInterrupt
    elif _state.clearing:
        _state.held += 1
    # What was raised can be lost, as in a callback that catches everything: so not for ever.
    elif _state.raised is None or time.monotonic() > _state.raised + _TOGETHER:
        _raise()


def _raise() -> NoReturn:
    # A context that ends forgets it. Called outside of all, there is none that would.
    _state.raised = time.monotonic() if _state.contexts else None
    raise KeyboardInterrupt


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _ours(replaced: Mapping[str, tuple[Any, ...]]) -> Iterator[None]:
    """Handle signals whose handlers are among those named; put back what they were before.

    One that somebody has installed meanwhile stays.
    """
    if not _in_main_thread():
        yield
        return
    before: dict[int, Any] = {}
    try:
        _state.contexts += 1
        for name, handlers in replaced.items():
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) in handlers:
                before[number] = signal.getsignal(number)
                signal.signal(number, ask_to_end)
        yield
    finally:
        try:
            for number, handler in before.items():
                if signal.getsignal(number) is ask_to_end:
                    signal.signal(number, handler)
        finally:
            _state.contexts -= 1
            if not _state.contexts:
                _state.raised, _state.held = None, 0


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
    try:
        # A signal that comes before the handler is back finds the interrupt still there.
        with _ours({"SIGINT": (signal.default_int_handler,)}):
            _here.interrupt = Interrupt()
            yield _here.interrupt
    finally:
        _here.interrupt = None


@contextmanager
def ends_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does: batch systems and closed terminals send them.

    A signal that the process was started to ignore, as by ``nohup``, stays ignored.
    """
    with _ours({
        "SIGINT": (signal.default_int_handler,),
        "SIGTERM": (signal.SIG_DFL,),
        "SIGHUP": (signal.SIG_DFL,),
    }):  # fmt: skip
        yield


@contextmanager
def exits_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process where nothing is under way yet, with one line and the code 130.

    An exception would have to pass through modules that are half imported, and some turn it into
    another one.
    """

    def leave(*_: Any) -> NoReturn:
        with suppress(OSError):
            os.write(2, b"Interrupted.\n")
        os._exit(_BY_SIGINT)

    if not _in_main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is leave:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP end experiments as cleanly as Ctrl-C does.

    SIGINT and SIGTERM count also where they were ignored at the start, as a shell arranges for
    SIGINT in what a script starts in the background: who sends one to this process wants it to
    end, and nothing is lost. SIGHUP stays ignored where it was, which is what nohup is for.
    """
    with _ours({
        "SIGINT": (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler),
        "SIGTERM": (signal.SIG_DFL, signal.SIG_IGN),
        "SIGHUP": (signal.SIG_DFL,),
    }):  # fmt: skip
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Clear away without being torn out of it; signals that come meanwhile are obeyed afterwards.

    Raises
    ------
    KeyboardInterrupt
        At the end of the outermost block, if a signal came and none had raised it before.

    Examples
    --------
    >>> done = []
    >>> try:
    ...     with undisturbed():
    ...         ask_to_end()
    ...         done.append("all of it")
    ... except KeyboardInterrupt:
    ...     done
    ['all of it']
    """
    if not _in_main_thread():
        yield
        return
    try:
        _state.clearing += 1
        yield
    finally:
        _state.clearing -= 1
        if not _state.clearing:
            held, _state.held = _state.held, 0
            if held and _state.raised is None:
                _raise()
