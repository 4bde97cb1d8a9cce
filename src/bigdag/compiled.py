"""Compiled functions, kept on disk between runs, and the time that compiling takes.

``@kernel`` is ``numba.njit`` with one cache of our own. Numba's own cache lies beside the sources,
which may not be writable, does not notice a change in a function of another module, and trusts
whatever bytes it finds. Ours lies in the user's cache folder, under a hash of the sources of all
kernels, of numba and of the processor, and every entry carries a digest: what is damaged is
compiled again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import llvmlite
import numba
from llvmlite import binding
from numba.core import compiler, event, ir, lowering, serialize, typed_passes
from numba.core.analysis import must_use_alloca
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher

__all__ = ["Stopwatch", "cache_folder", "compiling_seconds", "kernel", "on_compiling"]

_log = logging.getLogger("bigdag")
_numba: Any = compiler  # untyped
_pack: Any = serialize.dumps
_listen: Any = event.register
_UNUSED_DAYS = 30  # after which compiled code of other versions is removed
_DIGEST_BYTES = 32
KERNELS: list[Any] = []  # all compiled functions of the package that were imported
_NAME_OF_A_FOLDER = re.compile("[0-9a-f]{16}")


def kernel(
    function: Callable[..., Any] | None = None, /, *, inside: bool = False, **options: Any
) -> Any:
    """Compile a function when it is first called, without Python's lock, and keep it on disk.

    Parameters
    ----------
    function : callable
        What numba can compile.
    inside : bool, default=False
        Other kernels call it. Then it compiles sooner, as nothing is made that takes its arguments
        out of Python's objects, and as it is optimised and turned into machine code with those that
        call it, not by itself, too.
    **options
        Of ``numba.njit`` but ``parallel``, such as ``fastmath=True``; ``_nrt=False`` for a function
        that allocates nothing, which compiles sooner without counting references.

    Returns
    -------
    Dispatcher
        The compiled function; the function itself where numba's compiler is switched off.

    Examples
    --------
    >>> @kernel
    ... def double(x):
    ...     return 2 * x
    >>> double(21)
    42
    """
    if function is None:
        return lambda function: kernel(function, inside=inside, **options)
    # Without fastmath=False a function takes over what its first caller has, so that results would
    # depend on which one was compiled first.
    options = {"fastmath": False, "no_cfunc_wrapper": True, **options}
    options["pipeline_class"] = _PartCompiler if inside else _KernelCompiler
    compiled = numba.njit(nogil=True, **options)(function)
    if inside and isinstance(compiled, CPUDispatcher):
        compiled.__class__ = _Inside
    if hasattr(compiled, "_cache") and _is_ours(function):
        _key()  # of the sources as they are now, while they are imported
        compiled._cache = _KernelCache(function)
        KERNELS.append(compiled)
    return compiled


class _Inside(CPUDispatcher):
    """A compiled function without an entrance for Python, where it is called through another one.

    Without that a call from Python would end the process.
    """

    def __call__(self, *arguments: Any) -> Any:
        return _caller(self)(*arguments)


@cache
def _caller(inner: Any) -> Any:
    """Return a compiled function that Python can call, and that calls this one."""
    return numba.njit(lambda *arguments: inner(*arguments))


class _Part(JITCodeLibrary):
    """Code that is linked into that of its callers, and optimised there; it never runs by itself.

    Numba optimises each function together with all that it calls, so that what stands deep inside
    of others would be optimised once for every level, and turned into machine code as often.
    """

    @property
    def codegen(self) -> Any:
        """Itself, which numba tells the function's environment."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: no kernel of ours uses its environment."""

    def _optimize_final_module(self) -> None:
        """Leave it to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        """Return zero, as numba does where there is no function that Python could call."""
        return 0

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Return what `_rebuilt` makes a part of."""
        return self.name, "part", self._get_module_for_linking().as_bitcode()


def _part(context: Any, name: str) -> Any:
    library = context.codegen().create_library(name)
    library.__class__ = _Part
    return library


class _KernelLower(lowering.Lower):
    """Translates into LLVM's language, without variables in memory for what is set once for all.

    Numba gives a variable a place in memory unless one block has all of its uses, and reads the
    whole tuple of arrays from there for each field of it. What the first block sets, arguments
    above all, is known in every other one.
    """

    def _find_singly_assigned_variable(self) -> None:
        super()._find_singly_assigned_variable()
        blocks = self.func_ir.blocks
        first = min(blocks)
        begins_again = self.func_ir.func_id.is_generator or any(
            first in block.terminator.get_targets() for block in blocks.values()
        )
        # Where references are counted, a variable may be let go of twice on one way.
        if self.context.enable_nrt or begins_again:
            return
        times = Counter(
            one.target.name for block in blocks.values() for one in block.find_insts(ir.Assign)
        )
        here = {one.target.name for one in blocks[first].find_insts(ir.Assign)}
        fixed = {name for name in here if times[name] == 1} - set(must_use_alloca(blocks))
        self._singly_assigned_vars |= fixed


class _PartLower(_KernelLower):
    """The same for a part, which Python does not call.

    All kernels ask numba for an entrance, so that they have the same flags: numba chooses
    and compiles its own functions anew for other flags.
    """

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        """Make none."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(typed_passes.NativeLowering):
    _name = "kernel_lowering"
    lowering_class = _KernelLower


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(typed_passes.NativeLowering):
    _name = "part_lowering"
    lowering_class = _PartLower


class _SharedFlags(compiler.Flags):
    """Flags of which there is one object for the same values, and which nobody changes.

    Numba looks its own functions up by the flags in force, tens of thousands of times, and would
    compare them value by value.
    """

    _hash = hash(compiler.Flags())  # the same for all values

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> Any:
        return self is other or super().__eq__(other)

    def copy(self) -> compiler.Flags:
        """Return flags that may be changed."""
        return compiler.Flags(self)


class _KernelFlags(compiler.Flags):
    """The flags of one compilation; its first copy, which numba puts into force, is shared."""

    _shared: ClassVar[dict[str, _SharedFlags]] = {}
    _in_force = False

    def copy(self) -> compiler.Flags:
        """Return the shared flags of these values, and from then on flags that may be changed."""
        if self._in_force:
            return compiler.Flags(self)
        self._in_force = True
        return self._shared.setdefault(self.summary(), _SharedFlags(self))


class _KernelCompiler(compiler.CompilerBase):
    """Numba's own compiler but for one step, and for flags that are quick to compare."""

    _step: type = _KernelLowering

    def __init__(
        self, typing: Any, context: Any, library: Any, args: Any, returned: Any, flags: Any,
        local: Any,
    ) -> None:  # fmt: skip
        super().__init__(typing, context, library, args, returned, _KernelFlags(flags), local)

    def define_pipelines(self) -> list[Any]:
        """Return the steps."""
        steps = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps.add_pass_after(self._step, typed_passes.NativeLowering)
        steps.passes = [one for one in steps.passes if one[0] is not typed_passes.NativeLowering]
        steps.finalize()
        return [steps]


class _PartCompiler(_KernelCompiler):
    """The same, whose result is a part."""

    _step = _PartLowering

    def __init__(self, typing: Any, context: Any, library: Any, *more: Any) -> None:
        super().__init__(typing, context, library or _part(context, "part"), *more)


class _PartLoader:
    """What numba asks to make a compiled function of what was kept, where that is a part."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.typing_context = context.typing_context
        self.get_executable = context.get_executable

    def codegen(self) -> _PartLoader:
        return self

    def unserialize_library(self, kept: tuple[str, str, bytes]) -> Any:
        name, _, code = kept
        part = _part(self._context, name)
        part._final_module = binding.parse_bitcode(code)
        part._finalize_final_module()
        return part


def _rebuilt(context: Any, kept: tuple[Any, ...]) -> Any:
    """Return a compiled function from what was kept of it."""
    if kept[0][1] != "part":
        return _numba.CompileResult._rebuild(context, *kept)
    result = _numba.CompileResult._rebuild(_PartLoader(context), *kept)
    return result._replace(target_context=context)


# ------------------------------------------------------------------ where compiled code is kept


def cache_folder() -> Path:
    """Return the folder of this version's compiled code; it exists and can be written.

    It is in ``BIGDAG_CACHE_DIR`` or ``NUMBA_CACHE_DIR`` where one of them is set, else in the
    user's cache folder, else in a folder of the user's own among the temporary ones.
    """
    return _cache_folder()


@cache
def _cache_folder() -> Path:
    key = _key()
    for parent in (*_wanted_parents(), None):
        try:
            folder = (_temporary_parent() if parent is None else parent) / key
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            _refuse_foreign(folder)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            continue
        os.utime(folder)
        _remove_unused(folder.parent)
        return folder
    return Path(tempfile.mkdtemp(prefix="bigdag-"))


def _wanted_parents() -> list[Path]:
    parents = [
        Path(given) / "bigdag" / "compiled"
        for name in ("BIGDAG_CACHE_DIR", "NUMBA_CACHE_DIR")
        if (given := os.environ.get(name))
    ]
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA")
        return [*parents, Path(home) / "bigdag" / "compiled"] if home else parents
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        parents.append(Path(given) / "bigdag" / "compiled")
    try:
        home = Path.home()
    except RuntimeError:  # no home is known
        return parents
    if sys.platform == "darwin":
        return [*parents, home / "Library" / "Caches" / "bigdag" / "compiled"]
    return [*parents, home / ".cache" / "bigdag" / "compiled"]


def _temporary_parent() -> Path:
    """Return a folder among the temporary ones that nobody else can have put code into."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir(), f"bigdag-compiled-{user}")
    folder.mkdir(mode=0o700, exist_ok=True)
    _refuse_foreign(folder)
    return folder


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder in which somebody else may have put code."""
    about = folder.lstat()
    if hasattr(os, "getuid") and (about.st_uid != os.getuid() or about.st_mode & 0o022):
        raise PermissionError(f"{folder} can be written by somebody else")


def _remove_unused(parent: Path) -> None:
    """Remove folders of ours whose compiled code no run has used for a month."""
    long_ago = time.time() - _UNUSED_DAYS * 86400
    with suppress(OSError):
        for folder in parent.iterdir():
            ours = _NAME_OF_A_FOLDER.fullmatch(folder.name) and not folder.is_symlink()
            if ours and folder.is_dir() and folder.stat().st_mtime < long_ago:
                shutil.rmtree(folder, ignore_errors=True)


def _key() -> str:
    """Return what compiled code depends on, as found when the first kernel was imported."""
    return _key_and_stamps()[0]


@cache
def _key_and_stamps() -> tuple[str, dict[Path, tuple[int, ...]]]:
    """Return the key, and the stamps of the sources of kernels, taken before they were read."""
    stamps = {path: _stamp(path) for path in _sources()}
    contents = {path: path.read_bytes() for path in stamps}
    kernels = {path: source for path, source in contents.items() if b"@kernel" in source}
    return _hash_of(kernels), {path: stamps[path] for path in kernels}


def _sources() -> list[Path]:
    return sorted(Path(__file__).parent.rglob("*.py"))


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what differs once a file has been written again."""
    about = path.stat()
    return about.st_mtime_ns, about.st_ctime_ns, about.st_size


def _sources_are_unchanged() -> bool:
    """Tell whether the sources of kernels are those that the key is of."""
    return all(_stamp(path) == stamp for path, stamp in _key_and_stamps()[1].items())


def _hash_of(kernels: dict[Path, bytes]) -> str:
    """Return a hash of the sources of all kernels, of the compiler and of Python."""
    versions = numba.__version__, llvmlite.__version__, sys.version, sys.implementation.cache_tag
    digest = hashlib.sha256(repr(versions).encode())
    for path, source in kernels.items():
        name = path.relative_to(Path(__file__).parent).as_posix()
        digest.update(name.encode() + b"\0" + source)
    return digest.hexdigest()[:16]


def _is_ours(function: Callable[..., Any]) -> bool:
    return function.__module__.partition(".")[0] == __name__.partition(".")[0]


class _KernelCache:
    """What numba asks for a compiled function before it compiles, and tells of it afterwards."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"

    @property
    def cache_path(self) -> str:
        return str(cache_folder())

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled function of a signature, or None."""
        target_context.refresh()
        try:
            content = self._file(signature, target_context).read_bytes()
            digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(body).digest() != digest:
                return None
            return _rebuilt(target_context, pickle.loads(body))
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever is wrong with it, the source is still there
            _log.debug("compiled code of %s cannot be used: %s", self._name, error)
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled function."""
        temporary = None
        try:
            if result.lifted or result.library.has_dynamic_globals:
                return
            if not _sources_are_unchanged():
                return
            body = _pack(result._reduce())
            target = self._file(signature, result.target_context)
            with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
                temporary = file.name
                file.write(hashlib.sha256(body).digest() + body)
            os.replace(temporary, target)
        except Exception as error:  # a full disk costs time, not the answer
            _log.debug("compiled code of %s is not kept: %s", self._name, error)
            if temporary is not None:
                with suppress(OSError):
                    os.unlink(temporary)

    def _file(self, signature: Any, target_context: Any) -> Path:
        about = repr((signature, target_context.codegen().magic_tuple()))
        return cache_folder() / f"{self._name}-{hashlib.sha256(about.encode()).hexdigest()[:16]}"

    def enable(self) -> None:
        """Do nothing: it is always enabled."""

    def disable(self) -> None:
        """Do nothing: it is always enabled."""

    def flush(self) -> None:
        """Do nothing: a change of a source changes the folder."""


# ------------------------------------------------------------------ the time of compiling


class _CompileClock(event.Listener):
    """Adds up the seconds in which some thread compiles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way, self._since, self._total = 0, 0.0, 0.0
        self.told: Callable[[], Any] | None = None

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        with self._lock:
            if not self._under_way:
                self._since = time.perf_counter()
            self._under_way += 1
            told, self.told = self.told, None
        if told is not None:
            told()

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        with self._lock:
            self._under_way -= 1
            if not self._under_way:
                self._total += time.perf_counter() - self._since

    def seconds(self) -> float:
        with self._lock:
            running = time.perf_counter() - self._since if self._under_way else 0.0
            return self._total + running


_clock = _CompileClock()
_listen("numba:compile", _clock)


def compiling_seconds() -> float:
    """Return the seconds that this process has spent compiling.

    Examples
    --------
    >>> compiling_seconds() >= 0
    True
    """
    return _clock.seconds()


def on_compiling(tell: Callable[[], Any] | None) -> None:
    """Have a function called once, when the next compilation begins.

    Examples
    --------
    >>> on_compiling(None)
    """
    _clock.told = tell


class Stopwatch:
    """The seconds since it was made, without those of compiling.

    Examples
    --------
    >>> Stopwatch().seconds >= 0
    True
    """

    def __init__(self) -> None:
        self._began = time.perf_counter() - compiling_seconds()

    @property
    def seconds(self) -> float:
        """The seconds so far."""
        return time.perf_counter() - compiling_seconds() - self._began
