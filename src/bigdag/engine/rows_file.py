"""The rows of a fit in one file of a folder that the workers of a cluster see, too.

The caller writes what it works on itself, the rows as they are after all that was done to the
table, and workers map them into their memory: those on one machine share the pages. A worker
compares a digest of all rows before it uses them, so that another file is never taken for it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bigdag.errors import BigdagError, ParameterError
from bigdag.resources import format_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RowsFile", "Unseen", "checked_folder", "mapped_rows", "require_room", "written_rows"]

_BLOCK = 2**24  # bytes that are written, or compared, at a time


class Unseen(Exception):
    """The file is not on this machine, or is another one; says why."""


class RowsFile(NamedTuple):
    """A file of rows.

    Attributes
    ----------
    path : str
        Where it is, for whoever sees the folder.
    digest : str
        SHA-256 of all rows, in hexadecimal digits.
    """

    path: str
    digest: str


def checked_folder(folder: str | os.PathLike[str]) -> Path:
    """Return a folder as an absolute path, or refuse what files cannot be written to.

    Examples
    --------
    >>> checked_folder("/no/such/folder")
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: There is no folder /no/such/folder for the rows. ...
    """
    if not isinstance(folder, str | os.PathLike):
        raise ParameterError(
            "folder must be the path of a folder that the workers see, too, or None. Got "
            f"{type(folder).__name__!r} instead."
        )
    path = Path(os.path.abspath(folder))
    if not path.is_dir():
        what = f"{path} is no folder" if path.exists() else f"There is no folder {path}"
        raise ParameterError(
            f"{what} for the rows. Name one that this machine and the workers see. Nothing was run."
        )
    try:
        with tempfile.TemporaryFile(dir=path, prefix="bigdag-rows-"):
            return path
    except OSError as error:
        raise ParameterError(
            f"The rows cannot be written to the folder {path}: {error.strerror or error}. Name "
            "another one that this machine and the workers see. Nothing was run."
        ) from None


def require_room(folder: Path, n: int, d: int) -> None:
    """Refuse, before any work, rows that the folder has no room for."""
    need = 8 * n * d + _BLOCK
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return  # not told here: writing tells
    if free < need:
        raise BigdagError(
            f"The rows of {d:,} variables and {n:,} samples take {format_bytes(need)}, and the "
            f"folder {folder} has {format_bytes(free)} left. Make room, name another folder, or "
            "none: then the rows are sent to the workers. Nothing was run."
        )


def written_rows(folder: Path, Z: NDArray[np.float64]) -> RowsFile:
    """Write rows to a new file; where that fails, nothing is left of it.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = written_rows(Path(folder), np.eye(2))
    ...     mapped_rows(file, (2, 2))
    array([[1., 0.],
           [0., 1.]])
    """
    path, digest = folder / f"bigdag-rows-{secrets.token_hex(8)}.npy", hashlib.sha256()
    step = max(1, _BLOCK // max(1, 8 * Z.shape[1]))
    try:
        with path.open("xb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<f8", "fortran_order": False, "shape": Z.shape}
            )
            for first in range(0, len(Z), step):
                block = np.ascontiguousarray(Z[first : first + step], dtype="<f8")
                digest.update(block.data)
                file.write(block.data)
    except BaseException as error:
        with suppress(OSError):
            path.unlink()
        if not isinstance(error, OSError):
            raise
        raise BigdagError(
            f"The rows could not be written to the folder {folder}: {error.strerror or error}. "
            "Make room, name another folder, or none: then the rows are sent to the workers."
        ) from error
    return RowsFile(str(path), digest.hexdigest())


def mapped_rows(file: RowsFile, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return the rows of a file that was written elsewhere, mapped and compared.

    Raises
    ------
    Unseen
        If they are not here, or other ones.
    """
    try:
        # Private, so that kernels take them as they take rows in memory; nobody writes to them.
        mapped = np.load(file.path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Unseen(getattr(error, "strerror", None) or str(error)) from None
    Z = np.asarray(mapped)
    if Z.shape != tuple(shape) or Z.dtype != np.dtype("<f8") or not Z.flags.c_contiguous:
        raise Unseen("it holds another table")
    digest, step = hashlib.sha256(), max(1, _BLOCK // max(1, 8 * Z.shape[1]))
    for first in range(0, len(Z), step):
        digest.update(Z[first : first + step].data)
    if digest.hexdigest() != file.digest:
        raise Unseen("it holds other rows")
    return Z
