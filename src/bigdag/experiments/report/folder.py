"""A report's files in its folder: all of them or none, and never over what is not its own."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bigdag import __version__
from bigdag.errors import BigdagError, OutputExistsError, ParameterError

__all__ = ["PAGE", "earlier_files", "put"]

PAGE = "index.html"
_LIST = "report.json"  # the names of the files that are the report's


def earlier_files(target: Path, force: bool) -> list[str]:
    """Return the files of the report that the folder holds, or say why none can be written.

    Examples
    --------
    >>> earlier_files(Path("a new folder"), force=False)
    []
    """
    if target.is_file():
        raise ParameterError(f"{target} is a file. Give the name of a folder for the report.")
    if not target.exists() or not any(target.iterdir()):
        return []
    try:
        about = json.loads((target / _LIST).read_text("utf-8"))
        names = list(about["files"]) if about["bigdag_report"] else []
    except (OSError, ValueError, TypeError, KeyError):
        if force:
            return []
        raise OutputExistsError(
            f"{target} holds something that is no report, and was left alone. Choose another "
            "folder, or write into this one with force=True (--force on the command line)."
        ) from None
    inside = [n for n in names if isinstance(n, str) and _is_inside(n)]
    return [name for name in inside if (target / name).is_file()]


def _is_inside(name: str) -> bool:
    """Tell whether a name is that of a file which a report can have."""
    folder, _, file = name.rpartition("/")
    return folder in ("", "figures", "data") and file not in ("", ".", "..") and "\\" not in file


def put(files: Mapping[str, bytes], target: Path, earlier: Sequence[str]) -> Path:
    """Write the files into the folder, the page last; nothing is changed before all are made.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = put({PAGE: b"<!doctype html>"}, Path(folder, "report"), [])
    ...     sorted(os.listdir(path.parent))
    ['index.html', 'report.json']
    """
    target = Path(os.path.realpath(target))
    about = {"bigdag_report": 1, "bigdag": __version__, "files": sorted([*files, _LIST])}
    files = {**files, _LIST: (json.dumps(about, indent=1) + "\n").encode()}
    temporary = target.with_name(f".bigdag-{secrets.token_hex(8)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if not target.exists() or not any(target.iterdir()):
            with suppress(FileNotFoundError):
                target.rmdir()
            temporary.rename(target)
        else:
            for name in sorted(files, key=lambda name: name == PAGE):
                (target / name).parent.mkdir(exist_ok=True)
                os.replace(temporary / name, target / name)
            for name in set(earlier) - set(files):
                (target / name).unlink(missing_ok=True)
    except OSError as error:
        raise BigdagError(
            f"Could not write the report {target}: {error.strerror or error}."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target / PAGE
