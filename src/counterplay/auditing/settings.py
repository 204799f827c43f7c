"""The config as sections read it, and with what a call says in its place."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from counterplay.auditing.config import Config
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown

_FILES = {"effort": ("before", "after"), "champion": ("file",), "offers": ("file",)}


def settings_of(config: Config) -> dict[str, Any]:
    """Return the config as plain tables: unset values left out, files as they can be opened."""
    names = (
        "data", "columns", "moves", "movable", "effort", "costs", "planted", "symmetry", "sites",
        "champion", "offers", "section",
    )  # fmt: skip
    tables: dict[str, Any] = {}
    for name, values in config.part(names).items():
        found = {key: value for key, value in values.items() if value not in (None, "")}
        for key in _FILES.get(name, ()):
            if key in found:
                found[key] = str(config.path(found[key]))
        if name == "sites" and "files" in found:
            found["files"] = [str(config.path(file)) for file in found["files"]]
        tables[name] = found
    return tables


def with_run(config: Config, *, seed: int | None = None, time: float | None = None) -> Config:
    """Return the config with another seed or time."""
    changes: dict[str, Any] = {}
    if seed is not None:
        changes["seed"] = int(seed)
    if time is not None:
        changes["time"] = float(time)
    return msgspec.structs.replace(config, run=msgspec.structs.replace(config.run, **changes))


def with_data(config: Config, *, label: str | None, positive: Any) -> Config:
    """Return the config with label and wanted class from the call."""
    changes: dict[str, Any] = {}
    if label is not None:
        changes["label"] = str(label)
    if positive is not None:
        changes["positive"] = _wanted(positive)
    return msgspec.structs.replace(config, data=msgspec.structs.replace(config.data, **changes))


def _wanted(given: Any) -> Any:
    """Return the wanted outcome, or several, as plain values."""
    several = isinstance(given, list | tuple | set | np.ndarray | pd.Series)
    values = np.atleast_1d(given) if isinstance(given, np.ndarray) else given
    found = tuple(
        v.item() if isinstance(v, np.generic) else v for v in (values if several else [given])
    )
    if not all(isinstance(value, str | int | float | date) for value in found):
        raise InvalidInputError(
            f"positive must be an outcome or a list of them, got {shown(given, 80)}"
        )
    return found if several else found[0]
