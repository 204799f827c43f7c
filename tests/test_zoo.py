"""Every door to people's data meets the zoo: a result, or one sentence; nothing else.

A *door* is a public function or estimator that takes a table. `tests/zoo/doors_AREA.py` says how
each is called; a public callable with an argument ``X`` that is in no list fails here. Seconds are
measured by ``python -m tests.zoo``, a part of ``make fuzz``.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import resource
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import CounterplayError

from .zoo.animals import ANIMALS, TAME

FOLDER = Path(__file__).parent / "zoo"
AREAS = sorted(path.stem.removeprefix("doors_") for path in FOLDER.glob("doors_*.py"))
BYTES, CHARACTERS = 1 << 30, 300


def _list(area: str) -> Any:
    return importlib.import_module(f"tests.zoo.doors_{area}")


DOORS = [(area, name) for area in AREAS for name in _list(area).DOORS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("area", "door"), DOORS, ids=lambda value: str(value))
def test_a_door_gives_a_result_or_one_sentence(area: str, door: str) -> None:
    enter = _list(area).DOORS[door]
    wrong = {animal: told for animal in ANIMALS if (told := _complaint(enter, animal))}
    assert not wrong, "\n".join(f"{animal}: {told}" for animal, told in wrong.items())


def _complaint(enter: Any, animal: str) -> str | None:
    """Return what is wrong with how a door takes an animal, None if nothing is."""
    X, y = ANIMALS[animal]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result, sentence = None, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = enter(X, y)
    except CounterplayError as error:
        sentence = str(error)
    except Exception:
        return traceback.format_exc(limit=-4)
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if used >= BYTES:
        return f"{used >> 20} MiB at zoo size"
    if sentence is not None:
        if animal in TAME:
            return f"the tame table is refused: {sentence}"
        return None if 0 < len(sentence) <= CHARACTERS else f"not one sentence: {sentence!r}"
    wrong = _not_numbers(result)
    return None if wrong is None or _has_holes(X) else f"{wrong} in the result"


def test_a_complaint_names_what_is_wrong() -> None:
    def refuses(X: Any, y: Any) -> None:
        raise CounterplayError("no")

    def rambles(X: Any, y: Any) -> None:
        raise CounterplayError("no" * CHARACTERS)

    def breaks(X: Any, y: Any) -> float:
        return 1 / 0

    tame, wild = TAME[0], next(name for name in ANIMALS if name not in TAME)
    assert _complaint(lambda X, y: 1.0, tame) is None
    assert _complaint(refuses, wild) is None
    assert "tame" in str(_complaint(refuses, tame))
    assert "not one sentence" in str(_complaint(rambles, wild))
    assert "ZeroDivisionError" in str(_complaint(breaks, wild))
    assert "NaN" in str(_complaint(lambda X, y: {"a": [math.nan]}, tame))


@pytest.mark.parametrize("area", AREAS)
def test_every_public_door_is_in_the_list(area: str) -> None:
    listed = _list(area)
    known = {name.split(":")[0].split(".")[0] for name in (*listed.DOORS, *listed.NOT_TABLES)}
    missing = sorted(
        name for name, value in _public(area) if _takes_a_table(value) and name not in known
    )
    assert not missing, f"{area}: no zoo for {', '.join(missing)}"


def _public(area: str) -> Iterator[tuple[str, Any]]:
    package = importlib.import_module(f"counterplay.{area}")
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.ismodule(value):
            if value.__name__.endswith(".lab"):
                yield from ((inner, getattr(value, inner)) for inner in value.__all__)
        else:
            yield name, value


def _takes_a_table(value: Any) -> bool:
    if inspect.isclass(value):
        calls = [getattr(value, method, None) for method in ("fit", "predict", "of", "from_table")]
    else:
        calls = [value]
    for call in calls:
        if call is None or not callable(call):
            continue
        try:
            names = inspect.signature(call).parameters
        except (TypeError, ValueError):
            continue
        if {"X", "X_train", "table", "frame", "pool"} & set(names):
            return True
    return False


def _has_holes(X: Any) -> bool:
    try:
        return bool(pd.DataFrame(X).isna().to_numpy().any())
    except Exception:
        return False


def _not_numbers(value: Any, depth: int = 0) -> str | None:
    """Return what is NaN or complex in a result, None if nothing is."""
    if depth > 6:
        return None
    if isinstance(value, complex | np.complexfloating):
        return "a complex number"
    if isinstance(value, float | np.floating):
        return "NaN" if math.isnan(value) else None
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "c":
            return "complex numbers"
        return "NaN" if value.dtype.kind == "f" and np.isnan(value).any() else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return next((w for item in value if (w := _not_numbers(item, depth + 1))), None)
    return None
