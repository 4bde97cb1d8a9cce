"""Files and folders that appear whole or not at all, and are not lost where they cannot be written.

What is written stands under a temporary name beside its target until it is complete. Only regular
files are replaced, only by force, and what replaces one has its mode. Long work takes an
:class:`Output` first: what cannot be written is refused before the work, and what cannot be written
any more after it is saved elsewhere.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from bigdag.errors import BigdagError, OutputExistsError, ParameterError

__all__ = ["Output", "whole_file", "whole_files", "whole_folder"]

_PROBE_BYTES = 1 << 16  # what must fit on the disk before long work begins
_FREE_NAMES = 1000  # how many names beside a target are tried


@contextmanager
def whole_file(path: str | os.PathLike[str], force: bool = False) -> Iterator[BinaryIO]:
    """Open a binary file that appears at `path` whole when the block ends well, or not at all.

    A new file has the mode that the umask leaves; one that replaces another has its mode and,
    where that is allowed, its owner.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/a.txt") as file:
    ...         _ = file.write(b"all of it")
    ...     os.listdir(folder)
    ['a.txt']
    """
    target = _checked_file(path, force)
    temporary = _temporary(target)
    with _telling(path):
        try:
            with open(temporary, "xb", opener=_opener(target)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _place(temporary, target, path, force)
        finally:
            with suppress(OSError):
                temporary.unlink()


@contextmanager
def whole_files(
    paths: Sequence[str | os.PathLike[str]], force: bool = False
) -> Iterator[list[BinaryIO]]:
    """Open files that belong together, each as `whole_file` does, the last one placed first.

    None gets its name before all are complete on the disk.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_files([f"{folder}/a.txt", f"{folder}/b.txt"]) as files:
    ...         _ = [file.write(b"all of it") for file in files]
    ...     sorted(os.listdir(folder))
    ['a.txt', 'b.txt']
    """
    for path in paths:
        _checked_file(path, force)
    with ExitStack() as stack:
        files = [stack.enter_context(whole_file(path, force)) for path in paths]
        yield files
        for file, path in zip(files, paths):
            with _telling(path):
                file.flush()
                os.fsync(file.fileno())
        for path in paths:  # something may have taken one of the names meanwhile
            _checked_file(path, force)


@contextmanager
def whole_folder(path: str | os.PathLike[str], force: bool = False) -> Iterator[Path]:
    """Give a folder whose files appear in `path` when the block ends well, or not at all.

    The folder is made if it is not there. Files in it are replaced by force only, one after the
    other; other files are left alone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_folder(f"{folder}/world") as new:
    ...         _ = (new / "card.json").write_text("{}")
    ...     os.listdir(f"{folder}/world")
    ['card.json']
    """
    target = _checked_folder(path, force)
    temporary = _temporary(target)
    with _telling(path):
        try:
            temporary.mkdir()
            yield temporary
            _checked_folder(path, force)  # it may have been filled meanwhile
            if target.is_dir():
                files = sorted(temporary.iterdir())
                for file in files:
                    _checked_file(target / file.name, force)
                for file in files:
                    _like(target / file.name, file)
                    _place(file, target / file.name, target / file.name, force)
            else:
                temporary.rename(target)
        finally:
            with suppress(OSError):
                shutil.rmtree(temporary)


class Output:
    """A file, or a folder, that long work will write: refused before the work or not lost after it.

    Parameters
    ----------
    path : path-like
        The file or folder.
    force : bool, default=False
        Whether it may replace what is there.
    folder : bool, default=False
        Whether it is a folder.
    beside : callable, optional
        Takes the path of the file, and returns that of a second one which belongs to it.

    Attributes
    ----------
    saved : Path or None
        What was written; None until then.
    trouble : str or None
        Why `saved` is not `path`, as a sentence.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     output = Output(f"{folder}/a.txt").reserve()
    ...     _ = Path(folder, "a.txt").write_text("taken while the work was done")
    ...     output.write(lambda file: file.write(b"result")).name, output.trouble is None
    ('a.saved-1.txt', False)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        force: bool = False,
        *,
        folder: bool = False,
        beside: Callable[[Path], Path] | None = None,
    ) -> None:
        self.path, self.force, self.folder, self.beside = Path(path), force, folder, beside
        self.saved: Path | None = None
        self.trouble: str | None = None

    def reserve(self) -> Self:
        """Refuse now what could not be written later; nothing is left behind.

        Raises
        ------
        OutputExistsError
            If there is something, unless `force` is given.
        ParameterError
            If nothing can be written there.
        """
        check = _checked_folder if self.folder else _checked_file
        target = check(self.path, self.force)
        if self.beside is not None:
            check(self.beside(self.path), self.force)
        # A folder that is there gets its files inside; else the name is made beside the target.
        temporary = _temporary(target / "x" if self.folder and target.is_dir() else target)
        try:
            try:
                with open(temporary, "xb") as file:
                    file.write(bytes(_PROBE_BYTES))
                    file.flush()
                    os.fsync(file.fileno())
            finally:
                with suppress(OSError):
                    temporary.unlink()
        except OSError as error:
            raise ParameterError(
                f"Cannot write {self.path}: {_reason(error)}. Give another name or folder."
            ) from error
        return self

    def write(self, writer: Callable[[Any], Any]) -> Path:
        """Write, here or elsewhere, and return where.

        Parameters
        ----------
        writer : callable
            Gets a binary file to write to (two where a second one belongs to it), or a folder
            (Path) to write into. It is called once more for each place that is tried.

        Raises
        ------
        BigdagError
            If nothing could be written anywhere.
        """
        refusals = []
        for place in self._places():
            try:
                if self.folder:
                    with whole_folder(place, self.force and place == self.path) as folder:
                        writer(folder)
                else:
                    paths = [place, *([] if self.beside is None else [self.beside(place)])]
                    with whole_files(paths, self.force and place == self.path) as files:
                        writer(*files)
            except BigdagError as error:
                refusals.append(str(error))
                continue
            self.saved = place
            if refusals:
                why = refusals[0].removesuffix(" Nothing was written.")
                self.trouble = f"{why} The result was saved to {place} instead."
            return place
        raise BigdagError(
            f"{refusals[0]} It could not be saved beside it or in {tempfile.gettempdir()} either."
        )

    def _places(self) -> Iterator[Path]:
        """Yield where to write: the path, a free name beside it, a name in the temporary folder."""
        yield self.path
        name = self.path if self.path.name else Path(os.path.abspath(self.path))
        stem, suffix = name.stem, name.suffix
        beside = (name.with_name(f"{stem}.saved-{k}{suffix}") for k in range(1, _FREE_NAMES))
        with suppress(OSError):
            yield next(path for path in beside if not os.path.lexists(path))
        with suppress(OSError):
            own = Path(tempfile.mkdtemp(prefix="bigdag-"))  # nobody else can write there
            try:
                yield own / f"{stem[:100]}{suffix}"
            finally:
                with suppress(OSError):
                    own.rmdir()  # only if it is empty


# ------------------------------------------------------------------ what may be written


def _checked_file(path: str | os.PathLike[str], force: bool) -> Path:
    """Return the file to write for `path`, through a link if it is one, or say why not."""
    target = _resolved(path)
    found = _status(target, path)
    if found is None:
        _check_parent(target, path)
        return target
    if stat.S_ISDIR(found.st_mode):
        raise ParameterError(
            f"{path} is a folder. Give the name of a file to write. Nothing was written."
        )
    if not stat.S_ISREG(found.st_mode):
        raise ParameterError(
            f"{path} is {_kind(found.st_mode)}, and only regular files are written. Give the name "
            "of a file. Nothing was written."
        )
    if not force:
        raise OutputExistsError(
            f"{path} exists already and was left alone. Choose another name, or overwrite it "
            "with force=True (--force on the command line)."
        )
    if not found.st_mode & stat.S_IWUSR or not os.access(target, os.W_OK):
        raise ParameterError(
            f"{path} is read-only (mode {stat.S_IMODE(found.st_mode):04o}) and was left alone. "
            "Choose another name, or make it writable first (chmod u+w)."
        )
    return target


def _checked_folder(path: str | os.PathLike[str], force: bool) -> Path:
    """Return the folder to write for `path`, or say why not."""
    target = _resolved(path)
    found = _status(target, path)
    if found is None:
        _check_parent(target, path)
        return target
    if not stat.S_ISDIR(found.st_mode):
        raise ParameterError(f"{path} is a file. Give the name of a folder to write to.")
    try:
        empty = not any(target.iterdir())
    except OSError as error:
        raise ParameterError(f"Cannot write to {path}: {_reason(error)}.") from error
    if not empty and not force:
        raise OutputExistsError(
            f"The folder {path} is not empty and was left alone. Choose another name, or "
            "overwrite the files of the same names in it with force=True (--force on the command "
            "line)."
        )
    return target


def _resolved(path: str | os.PathLike[str]) -> Path:
    """Return the path that a link leads to, or the path itself."""
    try:
        if not os.path.islink(path):
            return Path(os.path.abspath(path))  # so that "." has a name, too
        try:
            return Path(os.path.realpath(path, strict=True))
        except FileNotFoundError:
            return Path(os.path.realpath(path))  # to be made where the link points
    except (OSError, ValueError) as error:
        raise ParameterError(f"Cannot write {path}: {_reason(error)}.") from error


def _status(target: Path, path: str | os.PathLike[str]) -> os.stat_result | None:
    try:
        return target.stat()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ParameterError(f"Cannot write {path}: {_reason(error)}.") from error


def _check_parent(target: Path, path: str | os.PathLike[str]) -> None:
    if not target.parent.is_dir():
        folder = target.parent if os.path.islink(path) else Path(path).parent
        raise ParameterError(f"Cannot write {path}: the folder {folder} does not exist.")


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _reason(error: OSError | ValueError) -> str:
    return str(getattr(error, "strerror", None) or error)


# ------------------------------------------------------------------ how it is written


def _temporary(target: Path) -> Path:
    return target.with_name(f".bigdag-{secrets.token_hex(8)}.tmp")


def _opener(target: Path) -> Callable[[str, int], int]:
    """Return an opener of new files with the mode and the owner of the target, if it exists."""

    def opened(name: str, flags: int) -> int:
        replaces = target.exists()
        # Until it has the mode of what it replaces, nobody else may read it.
        descriptor = os.open(name, flags, 0o600 if replaces else 0o666)
        if replaces:
            try:
                _like(target, Path(name))
            except OSError:
                os.close(descriptor)
                raise
        return descriptor

    return opened


def _like(old: Path, new: Path) -> None:
    """Give a file the owner, where that is allowed, and the mode of an older one, if there is."""
    try:
        found = old.stat()
    except FileNotFoundError:
        return
    mode, mine = stat.S_IMODE(found.st_mode), os.stat(new)
    if (found.st_uid, found.st_gid) != (mine.st_uid, mine.st_gid):
        try:
            os.chown(new, found.st_uid, found.st_gid)
        except (OSError, AttributeError):
            if found.st_gid != mine.st_gid:
                mode &= ~0o070  # they were the rights of another group
    os.chmod(new, mode)


def _place(temporary: Path, target: Path, path: str | os.PathLike[str], force: bool) -> None:
    """Give a complete file its name; what took the name meanwhile is left alone without force."""
    _checked_file(path, force)
    if not force:
        try:
            os.link(temporary, target)  # unlike a renaming, it replaces nothing
            return
        except FileExistsError:
            _checked_file(path, force)
            raise
        except OSError:
            pass  # a file system without hard links
    os.replace(temporary, target)


@contextmanager
def _telling(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an error of the system into a sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BigdagError):
            raise
        raise BigdagError(
            f"Could not write {path}: {_reason(error)}. Nothing was written."
        ) from error
