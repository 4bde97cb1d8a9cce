"""Tables in NumPy's files, NPY and NPZ, read in blocks."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from bigdag.data import content
from bigdag.data.content import Content
from bigdag.data.convert import FloatArray, Rows, block_rows, matrix_of
from bigdag.data.moments import is_one_pass
from bigdag.data.npy import Header, array_header, check_end, no_array, read_exactly
from bigdag.errors import DataError
from bigdag.resources import require_memory

__all__ = ["read_npy", "read_npz"]


def read_npy(path: Path, memory_limit: float | str | None, copies: int = 0) -> Content:
    """Read the table of an NPY file, or its rows where it does not fit so many times."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        header = array_header(stream, size, ".npy")
        shape, dtype = header.shape, header.dtype
        if copies and len(shape) == 2 and dtype.kind in "biuf":
            overhead = 2 * block_rows(shape[1]) * shape[1] * dtype.itemsize
            if is_one_pass(*shape, memory_limit, overhead, copies):
                fill = partial(_fill_rows, path, stream.tell(), size, header)
                file = _named(np.empty((0, shape[1])), None)
                return file._replace(rows=Rows(*shape, fill, overhead))
        stream.seek(0)
        return _named(*_read_array(stream, size, ".npy", memory_limit))


def _fill_rows(
    path: Path, begin: int, size: int, header: Header, start: int, stop: int, out: FloatArray
) -> None:
    """Read rows of the array that begins at a byte of an NPY file of so many bytes."""
    (n, d), dtype = header.shape, header.dtype
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size != size:
            raise content.changed()

        def values(at: int, count: int) -> npt.NDArray[Any]:
            stream.seek(begin + at * dtype.itemsize)
            return np.frombuffer(read_exactly(stream, count * dtype.itemsize, ".npy"), dtype)

        with np.errstate(over="ignore"):  # an overflow gives inf, which is refused with its place
            if not header.fortran:
                out[...] = values(start * d, (stop - start) * d).reshape(stop - start, d)
                return
            for j in range(d):
                out[:, j] = values(j * n + start, stop - start)


def _named(X: npt.NDArray[np.float64], found: Iterable[str] | None) -> Content:
    d = X.shape[1]
    names = [""] * d if found is None else list(found)
    return Content(X, names, list(range(d)), found is not None, {}, [])


def _read_array(
    stream: IO[bytes], size: int, suffix: str, memory_limit: float | str | None
) -> tuple[npt.NDArray[np.float64], tuple[str, ...] | None]:
    """Read the array of an NPY file of `size` bytes in blocks; what else it holds is not read."""
    header = array_header(stream, size, suffix)
    shape, dtype = header.shape, header.dtype
    if len(shape) != 2 or dtype.kind not in "biuf":
        require_memory(6 * header.size, "its array", "Save an array of numbers.", memory_limit)
        array = np.frombuffer(read_exactly(stream, header.size, suffix), dtype=dtype)
        return matrix_of(array.reshape(shape, order="F" if header.fortran else "C"))
    n, d = shape
    # Inflating takes more than reading.
    content.require_table(
        n, d, min((4 if suffix == ".npz" else 2) * content.BLOCK, 3 * header.size), memory_limit
    )
    X = content.new_matrix(n, d)
    length = n if header.fortran else d  # of what is stored in one piece
    step = max(1, content.BLOCK // max(1, length * dtype.itemsize))
    for start in range(0, d if header.fortran else n, step) if n and d else ():
        count = min(step, (d if header.fortran else n) - start)
        raw = read_exactly(stream, count * length * dtype.itemsize, suffix)
        block = np.frombuffer(raw, dtype=dtype).reshape(count, length)
        with np.errstate(over="ignore"):  # an overflow gives inf, which is refused with its place
            if header.fortran:
                X[:, start : start + count] = block.T
            else:
                X[start : start + count] = block
    return X, None


def read_npz(path: Path, memory_limit: float | str | None) -> Content:
    """Read the table of an NPZ file, and the names that it may hold."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_archive(archive, memory_limit)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as err:
        raise no_array(".npz") from err


def _read_archive(archive: zipfile.ZipFile, memory_limit: float | str | None) -> Content:
    members: dict[str, tuple[zipfile.ZipInfo, Header]] = {}
    for info in archive.infolist():
        if info.flag_bits & 1:
            raise DataError("the file is encrypted. Save it without a password.")
        if not info.filename.endswith(".npy"):
            raise DataError(
                f"the file holds {info.filename!r}, which is not an array. An NPZ file must hold "
                "one 2-D array and optionally an array 'names'."
            )
        with archive.open(info) as stream:
            key = info.filename.removesuffix(".npy")
            members[key] = info, array_header(stream, info.file_size, ".npz")
    labels = members.pop("names", None)
    tables = [key for key, (_, header) in members.items() if len(header.shape) == 2]
    if len(tables) != 1:
        held = ", ".join(f"{key!r} {header.shape}" for key, (_, header) in members.items())
        raise DataError(
            "an NPZ file must hold one 2-D array and optionally an array 'names'. "
            f"This one holds {held or 'no array'}."
        )
    info, header = members[tables[0]]
    found: list[str] | None = None
    if labels is not None:
        about, names = labels
        d = header.shape[1]
        if names.dtype.kind != "U" or names.shape != (d,):
            raise DataError(
                f"the array 'names' must hold {d} strings, one per column. "
                f"Got shape {names.shape} and dtype {names.dtype} instead."
            )
        require_memory(3 * names.size, "its array 'names'", "Use shorter names.", memory_limit)
        with archive.open(about) as stream:
            array_header(stream, about.file_size, ".npz")
            raw = read_exactly(stream, names.size, ".npz")
            check_end(stream)
        try:
            found = np.frombuffer(raw, dtype=names.dtype).tolist()
        except (ValueError, UnicodeDecodeError):
            raise no_array(".npz") from None
    with archive.open(info) as stream:
        X, own = _read_array(stream, info.file_size, ".npz", memory_limit)
        check_end(stream)
    return _named(X, found if found is not None else own)
