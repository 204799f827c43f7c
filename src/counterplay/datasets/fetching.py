"""``fetch``: local folder, then cache, then network; and the list of what there is."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.datasets.bundled import BUNDLED, bundled_infos
from counterplay.datasets.catalogue import CATALOGUE
from counterplay.datasets.dataset import Dataset, DatasetInfo
from counterplay.datasets.downloads import download as bring
from counterplay.datasets.sources import VARIABLE, Entry, Found, find, unavailable
from counterplay.errors import (
    CounterplayError,
    DataUnavailableError,
    InvalidInputError,
    UnknownNameError,
)

if TYPE_CHECKING:
    import pandas as pd

Folder = str | os.PathLike[str] | None


@overload
def fetch(
    name: str,
    *,
    return_X_y: Literal[True],
    as_frame: Literal[False] = False,
    folder: Folder = None,
    download: bool = True,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def fetch(
    name: str,
    *,
    return_X_y: Literal[True],
    as_frame: Literal[True],
    folder: Folder = None,
    download: bool = True,
) -> tuple[pd.DataFrame, pd.Series[Any]]: ...
@overload
def fetch(
    name: str,
    *,
    return_X_y: Literal[False] = False,
    as_frame: bool = False,
    folder: Folder = None,
    download: bool = True,
) -> Dataset: ...
@checked
def fetch(
    name: str,
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    folder: Folder = None,
    download: bool = True,
) -> Dataset | tuple[Any, Any]:
    """Return a larger data set from a local folder, the cache or its official address.

    Parameters
    ----------
    name:
        One of the names of :func:`list_datasets`, such as ``"german_credit"`` or ``"cifar10"``.
    return_X_y:
        Return the pair ``(X, y)``; for images, the training part.
    as_frame:
        For tables: give ``X`` as a data frame and ``y`` as a series instead of arrays.
    folder:
        Local folder; default is the environment variable ``COUNTERPLAY_DATA``.
    download:
        Whether the network may be used when no local file is found.

    Returns
    -------
    Dataset or tuple
        Label 1 is the outcome the people in the data want: a loan that is repaid, a mail that is
        delivered. ``Dataset.label_1`` says it for each set, ``Dataset.frame`` is the raw table.

    Raises
    ------
    DataUnavailableError
        When no copy can be had; the message shows the files that would be read.
    MissingDependencyError
        When a file needs pyarrow (parquet) or pillow (JPEG): install ``counterplay[data]``.

    Examples
    --------
    >>> X, y = fetch("german_credit", return_X_y=True)  # doctest: +SKIP
    >>> X.shape, y.mean()  # doctest: +SKIP
    ((1000, 59), np.float64(0.7))
    >>> fetch("german credit")
    Traceback (most recent call last):
    counterplay.errors.UnknownNameError: there is no data set named 'german credit'; did ...

    References
    ----------
    docs/data.md.
    """
    entry = _entry(name)
    found = find(entry, folder) or _downloaded(entry, folder, download)
    data = _read(entry, found)
    if as_frame:
        data = _with_frames(data)
    return data.pair() if return_X_y else data


@checked
def list_datasets(folder: Folder = None) -> list[DatasetInfo]:
    """Return every known data set, what it is, and whether it can be read here and now.

    Use it to see what :func:`load` and :func:`fetch` can give you on this machine.

    Parameters
    ----------
    folder:
        Folder to look in; default: the environment variable ``COUNTERPLAY_DATA``.

    Examples
    --------
    >>> sum(entry.kind == "images" for entry in list_datasets())
    4
    >>> [entry.name for entry in list_datasets() if entry.where.startswith("bundled")][:3]
    ['breast_cancer', 'diabetes', 'digits']

    References
    ----------
    docs/data.md.
    """
    return bundled_infos() + [_info(entry, find(entry, folder)) for entry in CATALOGUE.values()]


def checksum(name: str, folder: Folder = None) -> str | None:
    """Return the SHA-256 of the files behind ``fetch(name)``, None where they are not here yet.

    Examples
    --------
    >>> checksum("mnist", folder="/nowhere") in (None, checksum("mnist"))
    True
    """
    found = find(_entry(name), folder)
    if found is None:
        return None
    digest = hashlib.sha256()
    for path in found.paths:
        stat = path.stat()
        digest.update(_file_digest(path, stat.st_mtime_ns, stat.st_size))
    return digest.hexdigest()


@cache
def _file_digest(path: Path, changed: int, size: int) -> bytes:
    """Digest of one file; read again only when its time or size changed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _entry(name: str) -> Entry:
    if name in CATALOGUE:
        return CATALOGUE[name]
    if name in BUNDLED:
        raise UnknownNameError(f"{name!r} comes with scikit-learn; use datasets.load({name!r})")
    raise UnknownNameError.among("data set", name, CATALOGUE)


def _downloaded(entry: Entry, folder: Folder, allowed: bool) -> Found:
    if not entry.remotes:
        raise unavailable(entry, "it has no address to download it from", folder)
    if not allowed:
        raise unavailable(entry, "downloading was not allowed", folder)
    try:
        bring(entry)
    except DataUnavailableError as error:
        raise unavailable(entry, str(error), folder) from None
    found = find(entry, folder)
    if found is None:
        raise unavailable(entry, "the download is incomplete", folder)
    return found


def _read(entry: Entry, found: Found) -> Dataset:
    note = f"; {found.form.note}" if found.form.note else ""
    return Dataset(
        name=entry.name,
        kind=entry.kind,
        target_names=entry.target_names,
        label_1=entry.label_1,
        description=f"{entry.title} {entry.description}",
        source=entry.source,
        licence=entry.licence,
        variant=f"{found.paths[0]}{note}",
        **_fields(found),
    )


def _fields(found: Found) -> dict[str, Any]:
    """Read the files; whatever a reader says about a damaged one becomes one sentence."""
    try:
        return found.form.read(found.paths)
    except CounterplayError:
        raise
    except Exception as error:  # pandas, pyarrow, NumPy, zipfile and tarfile have errors of theirs
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise DataUnavailableError(
            f"{found.paths[0]} cannot be read ({reason}); remove it and fetch it again"
        ) from error


def _with_frames(data: Dataset) -> Dataset:
    import dataclasses

    import pandas as pd

    if data.kind != "table":
        raise InvalidInputError(f"as_frame=True needs a table; {data.name} is of kind {data.kind}")
    x = pd.DataFrame(data.X, columns=list(data.feature_names))
    return dataclasses.replace(data, X=x, y=pd.Series(data.y, name="target"))


def _info(entry: Entry, found: Found | None) -> DatasetInfo:
    if found is not None:
        where, rows = str(found.paths[0]), found.form.rows
    elif entry.remotes:
        where, rows = entry.remotes[0].urls[0], entry.forms[0].rows
    else:
        where, rows = f"missing: {VARIABLE}/{entry.forms[0].files[0]}", entry.forms[0].rows
    return DatasetInfo(entry.name, entry.kind, rows, entry.title, found is not None, where)
