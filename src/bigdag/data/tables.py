"""Tables in files become a `Dataset`: text, Parquet, Arrow and NumPy files, known by suffix.

What is about to be made is compared with the memory limit before it is made. Every file is read in
blocks straight into the matrix that the Dataset keeps, so that its numbers are in memory once, and
none is mapped: a file that changes while it is read gives an error, not a crash. Arrow is handed
only memory that it owns, since its threads may outlive the interpreter.
"""

from __future__ import annotations

import csv
import errno
import warnings
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from bigdag.data import content
from bigdag.data.annotated import read_h5ad
from bigdag.data.arrays import read_npy, read_npz
from bigdag.data.columns import ArrowFile, Parquet, read_columns
from bigdag.data.content import Choice, Content
from bigdag.data.dataset import (
    Dataset,
    centred_dataset,
    check_row_names,
    covariance_dataset,
    moments_dataset,
)
from bigdag.data.labels import labels_rows, row_names, without_row_labels
from bigdag.data.prepare import Accept, Prepared, follow, prepare_dataset
from bigdag.data.raw import Raw
from bigdag.data.text import TextFile, read_text
from bigdag.data.wishes import Wishes
from bigdag.errors import DataError, DataWarning, MemoryLimitError, ParameterError

__all__ = ["Choice", "read_covariance", "read_prepared", "read_raw", "read_table"]

_TEXT = {".csv": "\t;,", ".tsv": "\t", ".txt": "\t;, "}  # suffix: separators, in the order tried
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
_SUFFIXES = (
    ".csv, .tsv, .txt (each also with .gz), .parquet, .pq, .feather, .arrow, .npy, .npz and .h5ad"
)


def read_table(
    path: str | Path,
    header: Choice = "auto",
    row_labels: Choice = "auto",
    memory_limit: float | str | None = None,
    *,
    layer: str | None = None,
    copies: int = 1,
    n_jobs: int | None = None,
) -> Dataset:
    r"""Read a file by its suffix, check it and centre it.

    Parameters
    ----------
    path : str or Path
        A file that ends in .csv, .tsv or .txt (each also with .gz), .parquet, .pq, .feather,
        .arrow, .npy, .npz or .h5ad. An NPZ file holds one 2-D array and optionally an array
        `names`. The separator of a CSV or TXT file is detected. Of an .h5ad file X is read, or a
        layer; it needs the package anndata.
    header : bool or "auto", default="auto"
        Whether the first line of a text file holds the names of the columns. "auto": it does if any
        of its cells is text, and it does, with a warning, if it holds different whole numbers in
        quotation marks or above measured numbers. Other numbers that look like names are refused:
        years, grids such as 0.5, 1.0, 1.5, numbers that only rise or fall, or that are far from
        those below. A line ``sep=;`` before it, for Excel, names the separator and is left out.
    row_labels : bool or "auto", default="auto"
        Whether the first column holds labels of the rows, and is left out. "auto": columns that
        have no name (or "Unnamed: 0" and the like) and hold text or different whole numbers are
        left out, with a warning; other columns without a name are refused. The first column has no
        name either if the header has one cell fewer than the rows, as from R's write.table. In a
        text file without a header, a first column of different whole numbers beside measured ones
        is left out, with a warning, and so is the index that pandas noted in a Parquet or Feather
        file. False: every column holds data, those of numbers in a named index too.
    memory_limit : float or str, optional
        What the whole process may hold, in bytes or as in "4GB"; by default what the machine can
        spare. A Parquet, Feather, Arrow, NPY or .h5ad file that does not fit, while its covariance
        matrix does, is read in one pass: the Dataset holds its means and covariances in place of
        the samples, and a warning says so.
    layer : str, optional
        The layer of an .h5ad file, in place of its X.
    copies : int, default=1
        How many times the table must fit into the memory, or it is read in one pass. A learner
        works on a copy beside the table, so that ``bigdag fit`` passes 2.
    n_jobs : int, optional
        Threads that one pass takes; all cores by default.

    Returns
    -------
    Dataset
        As from `as_dataset`.

    Raises
    ------
    DataError
        If the file cannot be read or learnt from; the message says where and why.
    MemoryLimitError
        If the table would need more than the limit; raised before it is made.

    Warns
    -----
    DataWarning
        If columns are constant or copies of each other or count the rows, if columns were left out
        as row labels, or if a first line of numbers was taken as a header.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "trial.csv")
    ...     _ = path.write_text("dose,pain\n1,5\n2,2\n3,1\n")
    ...     read_table(path).names
    ('dose', 'pain')
    """
    with _reading(path, header, row_labels) as source:
        file = _load(
            source, header, memory_limit, row_labels=row_labels, layer=layer, copies=copies
        )
        file = _told(path, file, row_labels)
        # Its own label is that of the place in the file, where a column has none.
        names, named = file.final_names()
        first = names[0] if file.places[:1] == [0] else None
        X, tell = file.matrix(), row_labels is not False
        if file.rows is not None:
            return moments_dataset(file.rows, names, named, tell, first, n_jobs)
        return centred_dataset(X, names, named, tell_counts=tell, first_in_file=first)


def read_raw(
    path: str | Path,
    header: Choice = "auto",
    row_labels: Choice = "auto",
    memory_limit: float | str | None = None,
    *,
    layer: str | None = None,
    wanted: Collection[str] = (),
) -> Raw:
    """Read a file by its suffix as it is, with missing values and columns of text.

    The parameters, errors and warnings are those of `read_table`, but it has to fit into memory.
    The values of columns of text are kept of those `wanted` alone.
    """
    with _reading(path, header, row_labels) as source:
        file = _load(
            source, header, memory_limit, row_labels=row_labels, wanted=wanted, layer=layer,
            copies=0,
        )  # fmt: skip
        return _raw(_told(path, file, row_labels), row_labels)


def read_prepared(
    path: str | Path,
    wishes: Wishes,
    header: Choice = "auto",
    row_labels: Choice = "auto",
    memory_limit: float | str | None = None,
    *,
    look: bool = False,
    layer: str | None = None,
    copies: int = 1,
    n_jobs: int | None = None,
    accept: Accept | None = None,
) -> Prepared:
    """Read a file by its suffix and prepare the table as it is wished.

    The parameters, errors and warnings are those of `read_table` and `prepare`. `look` says that
    what is odd in the table is wanted, too; a table that does not fit is not looked at. `accept`
    may refuse the columns of a table that fits, before any work on them.
    """
    with _reading(path, header, row_labels) as source:
        file = _load(
            source, header, memory_limit, row_labels=row_labels, wanted=wishes.of_text,
            layer=layer, copies=copies, words=wishes.words,
        )  # fmt: skip
        file = _told(path, file, row_labels)
        if file.rows is None:
            return follow(_raw(file, row_labels), wishes, memory_limit, look=look, accept=accept)
        file.matrix()  # refuses text
        names, named = file.final_names()
        first = names[0] if file.places[:1] == [0] else None
        tell = row_labels is not False
        data = moments_dataset(file.rows, names, named, tell, first, n_jobs)
        return prepare_dataset(data, wishes, memory_limit)


def _told(path: str | Path, file: Content, row_labels: Choice) -> Content:
    """Return a file without the columns that label its rows, and say what there is to say of it."""
    file, left_out = without_row_labels(file, row_labels)
    for note in [*file.notes, *left_out]:
        warnings.warn(f"{path}: {note}", DataWarning, stacklevel=3)
    return file


def _raw(file: Content, row_labels: Choice) -> Raw:
    names, named = file.final_names()
    first = names[0] if file.places[:1] == [0] else None
    text = {names[j]: column for j, column in file.text.items()}
    numbers = tuple(name for name in names if name not in text)
    X = file.without(sorted(file.text)).X if text else file.X
    return Raw(X, numbers, named, text, first, row_labels is not False, file.decoded)


def read_covariance(
    path: str | Path,
    n_samples: int,
    header: Choice = "auto",
    memory_limit: float | str | None = None,
) -> Dataset:
    r"""Read a covariance matrix by the file's suffix and check it; its numbers stay as written.

    Parameters
    ----------
    path : str or Path
        A file as for `read_table`, with a row and a column for each variable. The names come from
        the columns. A column of text that repeats them, first or as the index of pandas, is left
        out.
    n_samples : int
        The number of samples that the matrix was computed from, at least 2.
    header : bool or "auto", default="auto"
        As in `read_table`; a first line of numbers is a header if the matrix is square without it.
    memory_limit : float or str, optional
        As in `read_table`.

    Returns
    -------
    Dataset
        As from `Dataset.from_covariance`.

    Raises
    ------
    DataError
        If the file cannot be read or holds no covariance matrix, or if the rows have other names
        than the columns.
    MemoryLimitError
        If the matrix would need more than the limit; raised before it is made.

    Warns
    -----
    DataWarning
        If variances are zero, if a first column was left out as row labels, or if a first line of
        numbers was taken as a header.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "trial.csv")
    ...     _ = path.write_text("dose,pain\n1,-0.5\n-0.5,2\n")
    ...     read_covariance(path, n_samples=80).covariance
    array([[ 1. , -0.5],
           [-0.5,  2. ]])
    """
    with _reading(path, header) as source:
        file = _load(source, header, memory_limit, covariance=True)
        notes = file.notes
        if file.labels is not None and labels_rows(file):
            labels, inside = file.labels, file.labels_inside
            file = file.without([0]) if inside else file
            rows = row_names(labels, file.names)
            if rows is not None:
                check_row_names(rows, file.names)
            if inside:
                notes = [*notes, "the first column holds row labels; it was left out."]
        for note in notes:
            warnings.warn(f"{path}: {note}", DataWarning, stacklevel=2)
        return covariance_dataset(file.matrix(), n_samples, *file.final_names())


@contextmanager
def _reading(path: str | Path, header: Choice, row_labels: Choice = "auto") -> Iterator[Path]:
    """Check that there is a file; put its path before every error of what is in it."""
    for name, value in (("header", header), ("row_labels", row_labels)):
        if not isinstance(value, bool) and value != "auto":
            raise ParameterError(f"{name} must be True, False or 'auto'. Got {value!r} instead.")
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a directory; give a file that ends in {_SUFFIXES}.")
    if not path.exists():
        raise DataError(f"There is no file {path}. Check the spelling and the working directory.")
    if not path.is_file():
        raise DataError(f"{path} is a pipe or a device; give a file that ends in {_SUFFIXES}.")
    try:
        yield path
    except ParameterError:  # what was wished of the table
        raise
    except MemoryLimitError as err:
        raise MemoryLimitError(f"{path}: {err}") from None
    except MemoryError as err:  # of Arrow and NumPy
        reason = " ".join(str(err).split())[:300].rstrip(".")
        raise MemoryLimitError(
            f"{path}: the memory is used up while the file is read ({reason}). "
            "Leave out rows or columns, or use a machine with more memory."
        ) from err
    except DataError as err:
        raise type(err)(f"{path}: {err}") from None
    except OSError as err:
        if err.errno in (errno.EACCES, errno.EPERM):
            raise DataError(f"{path}: there is no permission to read the file.") from None
        raise _damaged(path, err) from err
    except (EOFError, ValueError, zlib.error, pa.ArrowException, csv.Error) as err:
        raise _damaged(path, err) from err
    finally:
        for pool in (content.POOL, pa.default_memory_pool()):
            pool.release_unused()


def _damaged(path: Path, err: Exception) -> DataError:
    reason = " ".join(str(err).split())[:300].rstrip(".")
    return DataError(
        f"{path}: the file cannot be read as {path.suffix.lower()}: {reason}. "
        "It may be damaged, or its suffix may not say what it is."
    )


def _load(
    path: Path,
    header: Choice,
    memory_limit: float | str | None,
    covariance: bool = False,
    row_labels: Choice = "auto",
    wanted: Collection[str] = (),
    layer: str | None = None,
    copies: int = 1,
    words: Sequence[str] = (),
) -> Content:
    """Read a file by its suffix; for a covariance matrix also the labels of its rows."""
    suffix = path.suffix.lower()
    if layer is not None and suffix != ".h5ad":
        raise ParameterError(f"{path}: layer (--layer) goes with an .h5ad file.")
    inner = path.with_suffix("").suffix.lower() if suffix == ".gz" else suffix
    if inner in _TEXT:
        text = TextFile(path, memory_limit)
        return read_text(text, _TEXT[inner], header, covariance, row_labels, wanted, words)
    if suffix in (".parquet", ".pq", ".feather", ".arrow"):
        columns = Parquet(path) if suffix in (".parquet", ".pq") else ArrowFile(path)
        return read_columns(columns, memory_limit, covariance, row_labels, wanted, copies, words)
    if suffix == ".npy":
        return read_npy(path, memory_limit, 0 if covariance else copies)
    if suffix == ".h5ad":
        return read_h5ad(path, memory_limit, layer, 0 if covariance else copies)
    if suffix == ".npz":
        return read_npz(path, memory_limit)
    sheet = " Save the sheet as CSV in UTF-8." if suffix in _SHEETS else ""
    raise DataError(f"the suffix {suffix!r} is not known. Known suffixes are {_SUFFIXES}.{sheet}")
