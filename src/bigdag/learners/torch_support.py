"""What the learners on torch share: finding torch, a device, room, and an optimiser at work."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import scipy.sparse as sp

from bigdag.errors import MemoryLimitError, ParameterError, missing_extra
from bigdag.learners.base import Learner
from bigdag.learners.convergence import Settled
from bigdag.learners.dense import SMALL, arcs_of, unit_of_variances
from bigdag.learners.parameters import Checked, Number, OneOf
from bigdag.learners.run import Run
from bigdag.resources import SharedLimit

__all__ = [
    "Convergence",
    "Descent",
    "TorchLearner",
    "load_torch",
    "pick_device",
    "possible_arcs",
    "precision_of",
    "to_sparse",
]

# Beyond this ratio of variances float32 loses a residual to the rounding of what it is a difference
# of: second moments for a loss from S, values for a loss from X.
_WIDE_S, _WIDE_X = 1e4, 1e8
_LARGE = 1e12  # beyond this, or below its inverse, squares of gradients near the ends of float32
_DECAY = 10.0  # what a learning rate is divided by when the loss has settled
_ABOVE = 1e-3  # of the least loss: by more than that another is clearly above it
_RETURNS = 6  # to the place of the least loss, at the most


def load_torch(purpose: str) -> Any:
    """Return the module torch, or raise one clear sentence where it is not installed.

    Examples
    --------
    >>> load_torch("This example").__name__
    'torch'
    """
    try:
        import torch
    except ImportError:
        raise missing_extra("torch", "torch", purpose) from None
    return torch


def precision_of(dtype: Any) -> str:
    """Return the name of a torch dtype.

    Examples
    --------
    >>> import torch
    >>> precision_of(torch.float32)
    'float32'
    """
    return str(dtype).removeprefix("torch.")


def pick_device(torch: Any, device: str | None) -> Any:
    """Return the torch device of that name; one that is not there is an error, never the CPU.

    Examples
    --------
    >>> import torch
    >>> pick_device(torch, None)
    device(type='cpu')
    """
    name = "cpu" if device is None else device
    try:
        chosen = torch.device(name)
        float(torch.ones(1, device=chosen))  # what holds no numbers fails here
    except (RuntimeError, AssertionError, TypeError, ValueError, ImportError) as error:
        here = ["cpu"]
        if torch.cuda.is_available():
            here += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        if getattr(torch.backends, "mps", None) and torch.backends.mps.is_available():
            here.append("mps")
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise ParameterError(
            f"device must be one that is there: {', '.join(here)}. Got {device!r} instead "
            f"({why.rstrip('.')})."
        ) from None
    return chosen


def possible_arcs(torch: Any, run: Run, dtype: Any, device: Any) -> Any:
    """Return one where an arc is possible and zero elsewhere (d, d), or None where all are.

    Examples
    --------
    >>> import torch
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.learners.notears import NOTEARS
    >>> known = NOTEARS(knowledge={"root_nodes": ["x0"]})
    >>> run = Run(known, as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]]))
    >>> possible_arcs(torch, run, torch.float64, "cpu").tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    if run.limits is None:
        return None
    return torch.as_tensor(run.limits.all_pairs(), dtype=dtype, device=device)


def to_sparse(W: Any) -> sp.csc_array:
    """Return a dense tensor of weights as a ``csc_array``, without what is only rounding.

    Examples
    --------
    >>> import torch
    >>> to_sparse(torch.tensor([[0.0, 2.0], [1e-12, 0.0]])).toarray()
    array([[0., 2.],
           [0., 0.]])
    """
    return arcs_of(W.detach().cpu().numpy())


# ------------------------------------------------------------------ the optimiser


class Descent:
    """An optimiser at work on one tensor, in place; each iterate's loss is evaluated once.

    Parameters
    ----------
    torch : module
        The package.
    tensor : torch.Tensor
        What is optimised; the diagonal of a matrix keeps its value.
    loss : callable
        Takes the tensor, returns a scalar tensor. May be replaced between steps.
    optimizer : str or callable
        A class of ``torch.optim`` by name, or a function from parameters to an optimiser.
    learning_rate : float
        For an optimiser by name.
    possible : torch.Tensor, optional
        Zero where the tensor keeps its value.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([3.0])
    >>> descent = Descent(torch, x, lambda x: x.square().sum(), "SGD", 0.25)
    >>> descent.step()
    >>> descent.evaluate()
    2.25
    """

    def __init__(
        self,
        torch: Any,
        tensor: Any,
        loss: Callable[[Any], Any],
        optimizer: str | Callable[[Any], Any],
        learning_rate: float,
        possible: Any = None,
    ) -> None:
        self._torch = torch
        self._possible = possible
        self.tensor = tensor.requires_grad_()
        self.loss = loss
        self._at: Any = None  # the loss of the tensor as it is, when known
        try:
            if callable(optimizer):
                made = optimizer([tensor])
            else:
                made = getattr(torch.optim, optimizer)([tensor], lr=learning_rate)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                "optimizer must take the weights as its only parameter. "
                f"Got {optimizer!r} instead, which says: {error}"
            ) from error
        if not isinstance(made, torch.optim.Optimizer):
            raise ParameterError(
                "optimizer must return a torch.optim.Optimizer. "
                f"Got {type(made).__name__} from {optimizer!r} instead."
            )
        self.optimizer = made

    def evaluate(self) -> float:
        """Return the loss, with its gradient in place.

        Raises
        ------
        FloatingPointError
            If one of the two is not finite.
        """
        if self._at is None:
            self.optimizer.zero_grad(set_to_none=True)
            with self._torch.enable_grad():
                loss = self.loss(self.tensor)
                loss.backward()
            gradient = self.tensor.grad
            if gradient.dim() == 2:
                gradient.fill_diagonal_(0)
                if self._possible is not None:
                    gradient.mul_(self._possible)
            loss = loss.detach()
            if not math.isfinite(float(loss)):
                raise FloatingPointError(f"the loss is {float(loss)}")
            self._check_squares(gradient)
            self._at = loss
        return float(self._at)

    def _check_squares(self, gradient: Any) -> None:
        """Refuse a gradient that an optimiser cannot square: it would stand still, or jump."""
        flat = gradient.reshape(-1)
        if math.isfinite(float(self._torch.dot(flat, flat))):
            return
        largest = flat.abs().max()  # the sum alone may have overflowed
        if not math.isfinite(float(largest.square())):
            raise FloatingPointError(
                f"the gradient reaches {float(largest):.3g}, and its square is beyond "
                f"{precision_of(gradient.dtype)}"
            )

    def step(self) -> None:
        """Take one step of the optimiser.

        Raises
        ------
        FloatingPointError
            If it leads beyond the numbers that there are.
        """
        calls = 0

        def closure() -> Any:
            nonlocal calls
            if calls:
                self._at = None
            calls += 1
            self.evaluate()
            return self._at

        try:
            self.optimizer.step(closure)
        except (RuntimeError, OverflowError) as error:
            raise _said_plainly(error, self.optimizer) from error
        self._at = None
        where = self.tensor.detach()
        # A sum is quicker than a look at each entry, but may overflow by itself.
        if not (math.isfinite(float(where.sum())) or bool(where.isfinite().all())):
            raise FloatingPointError("a step led to weights that are not finite")

    def forget(self) -> None:
        """Evaluate anew at the next step, because the loss has changed."""
        self._at = None

    def go_to(self, where: Any) -> None:
        """Go on from another place, without what the optimiser knows of the way so far."""
        with self._torch.no_grad():
            self.tensor.copy_(where)
        self.optimizer.state.clear()
        self.forget()

    def scale_rates(self, factor: float) -> None:
        """Multiply the optimiser's learning rates, where it has such, by a factor."""
        for group in self.optimizer.param_groups:
            if "lr" in group:
                group["lr"] = group["lr"] * factor


class Convergence:
    """Tell when a descent has converged, and let it take finer steps before that.

    Whenever the loss has settled, the learning rate is divided by ten, as often as it may be; once
    it has settled after the last time, the descent has converged. Where steps that are too large
    have taken the loss clearly above its least value, the descent can go back to that place, with a
    tenth of the learning rate, and this does not count as one of the times.

    Parameters
    ----------
    descent : Descent
        Whose steps they are.
    tol, patience, floor : float, int, float
        See :class:`~bigdag.learners.convergence.Settled`.
    decays : int
        How often the learning rate is divided by ten.
    goes_back : bool, default=False
        Whether the place of the least loss is kept, to go back to.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([3.0])
    >>> descent = Descent(torch, x, lambda x: x.abs().sum(), "SGD", 2.0)
    >>> convergence = Convergence(descent, 1e-3, 3, decays=2)
    >>> while not convergence.reached(descent.evaluate()):
    ...     descent.step()
    >>> abs(float(x.detach())) < 0.02
    True
    """

    def __init__(
        self, descent: Descent, tol: float, patience: int, decays: int, floor: float = 0.0,
        goes_back: bool = False,
    ) -> None:  # fmt: skip
        self._descent, self._decays, self._left = descent, decays, decays
        self._settled = Settled(tol, patience, floor)
        self._floor, self._returns = floor, 0
        self._goes_back, self._now = goes_back, -math.inf
        self._lowest: Any = None  # where the loss is least

    @property
    def best(self) -> float:
        """The least loss so far."""
        return self._settled.best

    def reached(self, loss: float) -> bool:
        """Take the loss after the next step."""
        self._now = loss
        if self._goes_back and loss < self.best:
            where = self._descent.tensor.detach()
            self._lowest = where.clone() if self._lowest is None else self._lowest.copy_(where)
        if not self._settled.reached(loss):
            return False
        lower = self.clearly_lower()
        if lower is not None and self._returns < _RETURNS:
            self._returns += 1
            self._descent.go_to(lower)
        elif self._left:
            self._left -= 1
        else:
            return True
        self._descent.scale_rates(1 / _DECAY)
        self._settled.begin_window()
        return False

    def clearly_lower(self) -> Any:
        """Return the place of the least loss where the last one is clearly above it, else None."""
        above = self._now - self.best > _ABOVE * max(abs(self.best), self._floor)
        return self._lowest if above else None

    def undo_decays(self) -> None:
        """Give the descent the learning rates back that it began with."""
        self._descent.scale_rates(_DECAY ** (self._decays - self._left))


def _said_plainly(error: Exception, optimizer: Any) -> Exception:
    """Return what an error of torch inside a step means for the fit."""
    why = next(iter(str(error).splitlines()), type(error).__name__)
    if "overflow" in why:
        return FloatingPointError(f"a step is beyond the numbers that there are ({why})")
    if "alloc" in why or "out of memory" in why:
        return MemoryLimitError(
            f"There is no memory left for a step of {type(optimizer).__name__} ({why}). Use fewer "
            "variables or a sparse method such as ProxiMAS, or run it where there is more memory."
        )
    return ParameterError(
        "optimizer must be able to take a step with dense gradients. "
        f"Got {type(optimizer).__name__} instead, which says: {why}"
    )


# ------------------------------------------------------------------ threads


def _note_torch_threads() -> int:
    global _threads_before
    _threads_before = load_torch("A learner").get_num_threads()
    return _threads_before


def _set_torch_threads(n: int) -> None:
    load_torch("A learner").set_num_threads(n)


_threads_before = 1
_torch_threads = SharedLimit(_note_torch_threads, _set_torch_threads, _set_torch_threads)


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """Give a context in which this thread's operations of torch use `n` threads.

    The number is each thread's own, and a thread that begins takes over the last one that was set
    anywhere: so it is set here, and every thread goes back to what held before the first of the
    fits that are under way at the same time.
    """
    before = None
    try:
        with _torch_threads(n):
            before = _threads_before
            _set_torch_threads(n)
            yield
    finally:
        if before is not None:
            _set_torch_threads(before)


# ------------------------------------------------------------------ the estimator


def _is_optimizer(optimizer: Any) -> bool:
    if callable(optimizer):
        return True
    if not isinstance(optimizer, str) or optimizer == "SparseAdam":  # that takes sparse gradients
        return False
    if optimizer == "Adam":  # which is known without torch
        return True
    torch = load_torch("A learner that uses automatic differentiation")
    found = getattr(torch.optim, optimizer, None)
    base = torch.optim.Optimizer
    return isinstance(found, type) and issubclass(found, base) and found is not base


class TorchLearner(Learner):
    """Base of the learners that descend along gradients of torch."""

    _parameters: ClassVar[dict[str, Any]] = {
        **Learner._parameters,
        "lambda2": Number(0, 1e300),
        "optimizer": Checked(
            "the name of an optimiser of torch.optim such as 'Adam', or a callable that makes one "
            "from the parameters",
            _is_optimizer,
        ),
        "learning_rate": Number(0, 1e300, above=True),
        "tol": Number(0, 1),
        "patience": Number(1, whole=True),
        "decays": Number(0, 100, whole=True),
        "device": Checked(
            "the name of a torch device, or None", lambda d: d is None or isinstance(d, str)
        ),
        "dtype": OneOf("auto", "float32", "float64"),
    }

    _matrices: ClassVar[int]  # dense ones (d, d) that are held at the same time

    optimizer: str | Callable[[Any], Any]
    learning_rate: float
    tol: float
    patience: int
    decays: int
    device: str | None
    dtype: str

    def _workspace(self, n: int, d: int, hold: bool) -> int:  # noqa: ARG002
        return 4 * self._matrices * d * d

    def _prepare(self) -> None:
        """Import torch, which is not part of the method's time."""
        load_torch(type(self).__name__)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        device = pick_device(load_torch(type(self).__name__), self.device)
        if device.type == "mps" and self.dtype == "float64":
            raise ParameterError(
                "dtype must be 'float32' on the device mps. Got 'float64' instead."
            )

    def _dtype(self, run: Run, torch: Any, from_data: bool) -> Any:
        """Return float32, unless the columns' scales are too far apart for it."""
        if self.dtype != "auto":
            return getattr(torch, self.dtype)
        live = run.gram.diag()[run.gram.sd > 0]
        wide = _WIDE_X if from_data else _WIDE_S
        narrow = len(live) == 0 or (
            live.max() <= wide * live.min() and live.max() <= _LARGE and live.min() >= 1 / _LARGE
        )
        mps = pick_device(torch, self.device).type == "mps"
        return torch.float32 if narrow or mps else torch.float64

    def _unit(self, run: Run, dtype: Any) -> float:
        """Return what the loss divides variances by, so that squares of its gradients exist."""
        return unit_of_variances(run, precision_of(dtype), run.lambda1, run.lambda1)

    def _descent(
        self, torch: Any, tensor: Any, loss: Callable[[Any], Any], possible: Any = None
    ) -> Descent:
        return Descent(torch, tensor, loss, self.optimizer, self.learning_rate, possible)

    @contextmanager
    def _torch(self, run: Run) -> Iterator[Any]:
        """Give torch, with as many threads as the run has, or one for small matrices."""
        torch = load_torch(type(self).__name__)
        with _threads(run.gram.n_jobs if run.gram.d > SMALL else 1):
            yield torch
