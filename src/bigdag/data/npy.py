"""NumPy's file format: what an array says of itself is read, and compared, before its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any, NamedTuple

import numpy as np

from bigdag.errors import DataError

__all__ = ["Header", "array_header", "check_end", "no_array", "read_exactly"]


class Header(NamedTuple):
    """What an array says of itself."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    size: int  # bytes of the values


def array_header(stream: IO[bytes], size: int, suffix: str) -> Header:
    """Read what an NPY file of `size` bytes says of its array, or refuse it."""
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"version {version}")
        reader: Callable[..., Any] = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0  # version 3 differs in what names may hold
        )
        shape, fortran, dtype = reader(stream)
        count = 1
        for length in shape:
            count *= length
        header = Header(shape, fortran, dtype, count * dtype.itemsize)
        if dtype.hasobject or min(shape, default=0) < 0 or header.size > size:
            raise ValueError(f"shape {shape}, dtype {dtype}")
    except MemoryError:
        raise
    except Exception as err:  # a header is Python's notation; its tokenizer raises many things
        raise no_array(suffix) from err
    return header


def no_array(suffix: str) -> DataError:
    """Return the error for a file that holds no array of numbers."""
    return DataError(
        f"the file is not an {suffix} file, is damaged, or holds Python objects (pickles), "
        "which are never loaded. Save an array of numbers with numpy.save or numpy.savez."
    )


def read_exactly(stream: IO[bytes], size: int, suffix: str) -> bytes:
    """Read so many bytes, or refuse the file."""
    raw = stream.read(size)
    if len(raw) != size:
        raise no_array(suffix)
    return raw


def check_end(stream: IO[bytes]) -> None:
    """Read on to the end of a member, where zipfile compares its checksum."""
    if stream.read(1):
        raise no_array(".npz")
