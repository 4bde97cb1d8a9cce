"""Who does the large pieces of work on the rows: threads of this process, or somebody else.

A :class:`Task` falls apart into pieces, each of them a function of the rows and of the task alone.
So whoever does a piece, and how often, the answer is the same. An :class:`Executor` does them:
threads here (:class:`Threads`), the workers of a cluster (:mod:`bigdag.engine.on_dask`), or a
journal that remembers what was done before (:mod:`bigdag.learners.journal`). Work that is small or
that goes on from step to step stays with the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from bigdag.resources import blas_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram

__all__ = ["Arrays", "Executor", "Step", "Task", "Threads", "current", "executing"]

Arrays = tuple["NDArray[Any]", ...]
Piece = tuple[int, int]


class Task:
    """Work on the rows of a Gram that falls apart into pieces.

    A subclass is a frozen dataclass of arrays and numbers, so that it can be sent.
    """

    threaded: ClassVar[bool] = False  # whether a piece uses the threads of its Gram itself

    def prepare(self, gram: Gram) -> Any:  # noqa: ARG002
        """Return what all pieces need of the rows; done once in each process."""
        return None

    def piece(
        self,
        gram: Gram,  # noqa: ARG002
        prepared: Any,  # noqa: ARG002
        first: int,  # noqa: ARG002
        last: int,  # noqa: ARG002
        stop: Callable[[], bool] | None,  # noqa: ARG002
    ) -> Arrays | None:
        """Return the result of one piece.

        Where ``stop`` says so it may end early, with None if what it has by then is of no use.
        """
        raise AssertionError("a task defines piece")


class Step(NamedTuple):
    """A step of a search, which may have been done before.

    Attributes
    ----------
    found : tuple of ndarray, or None
        What was kept last of the same step, begun from the same.
    keep : callable
        Keeps in place of those the arrays that a function returns, or does not call it at all.
    """

    found: Arrays | None
    keep: Callable[[Callable[[], Sequence[Any]]], None]


class Executor(Protocol):
    """Does the pieces of tasks."""

    def admit(self, gram: Gram) -> None:
        """Refuse, before any work, rows that it could not work on."""

    def results(
        self,
        gram: Gram,
        task: Task,
        pieces: Sequence[Piece],
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[int, Arrays]]:
        """Yield the number and the result of each piece as it is done; fewer at a stop."""

    def step(self, gram: Gram, name: str, *inputs: Any) -> Step:
        """Return a step of a search that is a function of its inputs."""

    def forget(self, gram: Gram) -> None:
        """Let go of what was made of the rows; they are not worked on any more."""


class Threads:
    """Does pieces in the threads of a Gram, and those that use these themselves one by one.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> @dataclass(frozen=True)
    ... class Lengths(Task):
    ...     def piece(self, gram, prepared, first, last, stop):
    ...         return (np.linalg.norm(gram.Z[first:last], axis=1),)
    >>> gram = Gram(as_dataset([[0.0, 1.0], [2.0, 5.0], [4.0, 3.0]]))
    >>> for number, (lengths,) in Threads().results(gram, Lengths(), [(0, 1), (1, 2)]):
    ...     print(number, lengths.round(9))
    0 [1.]
    1 [1.]
    """

    def admit(self, gram: Gram) -> None:
        """Refuse nothing: the Gram has compared itself with the memory there is."""

    def results(
        self,
        gram: Gram,
        task: Task,
        pieces: Sequence[Piece],
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[int, Arrays]]:
        """Yield the number and the result of each piece, in their sequence; fewer at a stop."""
        prepared = task.prepare(gram) if pieces else None

        def work(piece: Piece) -> Arrays | None:
            if stop is not None and stop():
                return None
            return task.piece(gram, prepared, *piece, stop)

        if task.threaded or len(pieces) < 2:
            found: Iterator[Arrays | None] = map(work, pieces)
        else:
            found = gram.in_threads(work, pieces)
        with blas_threads(1):
            for number, result in enumerate(found):
                if result is None:
                    return
                yield number, result

    def step(self, gram: Gram, name: str, *inputs: Any) -> Step:  # noqa: ARG002
        """Return a step that was never done before, and is not kept."""
        return _NOT_KEPT

    def forget(self, gram: Gram) -> None:
        """Nothing was made."""


_NOT_KEPT = Step(None, lambda made: None)  # noqa: ARG005


_current: ContextVar[Executor] = ContextVar("executor", default=Threads())  # noqa: B039


def current() -> Executor:
    """Return who does the pieces of the Grams that are made now.

    Examples
    --------
    >>> isinstance(current(), Threads)
    True
    """
    return _current.get()


@contextmanager
def executing(executor: Executor) -> Iterator[None]:
    """Give a context whose Grams have their pieces done by an executor.

    Examples
    --------
    >>> mine = Threads()
    >>> with executing(mine):
    ...     current() is mine
    True
    """
    token = _current.set(executor)
    try:
        yield
    finally:
        _current.reset(token)
