"""The checks that apply to every public object, chosen by its kind.

Each check takes one public object and raises AssertionError with a sentence that says what to do.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import numbers
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import contract_estimators as estimators
import numpy as np
import pandas as pd
from contract_compare import fingerprint
from contract_discovery import Public, StaleCases, Unavailable, arguments, assert_rejected, make

from counterplay.core.report import Report

LIMIT_REPR = 5000

Check = Callable[[Public], None]


def checks_for(entry: Public) -> list[Check]:
    """Return the checks that apply to one public object."""
    if isinstance(entry.obj, StaleCases):
        return [check_no_stale_cases]
    if isinstance(entry.obj, Unavailable):
        return []
    if entry.kind in ("value", "exception"):
        return [check_docstring] if entry.kind == "exception" else []
    checks: list[Check] = [check_docstring]
    if entry.kind == "abstract" or entry.plumbing:
        return checks
    checks.append(check_example)
    if entry.get("no_case"):
        return checks
    checks.append(check_has_case)
    if entry.case is None:
        return checks
    checks += _case_checks(entry)
    return checks


def _case_checks(entry: Public) -> list[Check]:
    checks: list[Check] = []
    if entry.get("bad"):
        checks.append(check_bad_calls)
    if entry.kind == "bound":
        return [*checks, check_bound_is_finite, check_bound_rejects_nonsense]
    if entry.kind == "instance" and not inspect.isclass(entry.obj):
        return [*checks, check_call_is_reproducible, check_instance_is_immutable]
    if entry.kind == "function":
        return [*checks, check_call_is_reproducible]
    checks += [check_repr, check_pickle]
    if entry.kind == "estimator":
        return [
            *checks,
            estimators.check_parameters,
            estimators.check_init_does_no_work,
            estimators.check_fit,
            estimators.check_fit_is_reproducible,
            estimators.check_fit_rejects_nonsense,
            estimators.check_scikit_learn,
        ]
    if entry.get("run"):
        checks.append(check_run_is_reproducible)
    if dataclasses.is_dataclass(entry.obj):
        checks.append(check_dataclass_is_frozen)
    if hasattr(entry.obj, "summary"):
        checks.append(check_result)
    if _has_picture(entry.obj) and not entry.get("no_plot"):
        checks.append(check_plot)
    has_state = hasattr(entry.obj, "to_json") and hasattr(entry.obj, "from_json")
    if has_state and not entry.get("no_json"):
        checks.append(check_json_state)
    return checks


def check_no_stale_cases(entry: Public) -> None:
    """Cases belong to public names."""
    raise AssertionError(
        f"cases_{entry.area}.py has cases for names that are not public: "
        f"{', '.join(entry.obj.names)}; remove or rename them."
    )


def check_docstring(entry: Public) -> None:
    """Every public object explains itself; the first line is one sentence."""
    doc = inspect.cleandoc(entry.obj.__doc__ or "")
    if inspect.isclass(entry.obj) and dataclasses.is_dataclass(entry.obj):
        generated = f"{entry.obj.__name__}("
        assert not doc.startswith(generated), f"{entry.id} has no docstring of its own"
    assert doc, f"{entry.id} has no docstring"


def check_example(entry: Public) -> None:
    """Every public object has a doctest."""
    if entry.get("no_example"):
        return
    doc = entry.obj.__doc__ or ""
    assert ">>>" in doc, (
        f"the docstring of {entry.id} has no example; add a `>>>` doctest whose output is a number "
        f"that matters, or give its case a `no_example` reason"
    )


def check_has_case(entry: Public) -> None:
    """Every public name has a case."""
    what = {
        "bound": '{"args": {...valid keyword arguments...}}',
        "instance": '{"args": {...valid keyword arguments...}}',
        "function": '{"args": {...}, "bad": {...}}',
        "estimator": '{"make": lambda: ..., "data": lambda: (X, y)}',
    }.get(entry.kind, '{"make": lambda: ..., "run": lambda instance: ...}')
    assert entry.case is not None, (
        f"{entry.id} is public but has no contract case. Add to tests/contracts/"
        f'cases_{entry.area}.py, in CASES:  "{entry.name}": {what}. '
        f"See tests/contracts/README.md."
    )


def check_bad_calls(entry: Public) -> None:
    """Bad input raises an exception of the library with a message."""
    for label, call in entry.get("bad").items():
        assert_rejected(call, f"{entry.id}, bad call {label!r}")


def check_bound_is_finite(entry: Public) -> None:
    """A bound is a finite number or an array of them."""
    value = entry.obj(**arguments(entry))
    if not entry.get("any_result"):
        _assert_finite(value, entry)


def _assert_finite(value: Any, entry: Public) -> None:
    if isinstance(value, tuple):
        for item in value:
            _assert_finite(item, entry)
        return
    if isinstance(value, np.ndarray):
        assert np.isfinite(value).all(), f"{entry.id} returned {value}"
        return
    number = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    assert number, f"{entry.id} returned {type(value).__name__}; a bound returns a number"
    assert math.isfinite(value), f"{entry.id} returned {value}"


def check_bound_rejects_nonsense(entry: Public) -> None:
    """NaN and negative arguments never give a number."""
    valid = arguments(entry)
    for name, value in valid.items():
        for label, wrong in _nonsense(entry, name, value):
            assert_rejected(
                partial(entry.obj, **{**valid, name: wrong}),
                f"{entry.id}({name}={label})",
                hint=f"; if {label} makes sense there, add may_be_negative or may_be_nan",
            )


def _nonsense(entry: Public, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield wrong values for one numeric argument."""
    if isinstance(value, bool | np.bool_ | str) or value is None:
        return
    if isinstance(value, numbers.Real):
        if name not in entry.get("may_be_nan", ()):
            yield "nan", math.nan
        if name not in entry.get("may_be_negative", ()):
            yield "-1", -1 if isinstance(value, numbers.Integral) else -1.0
    elif isinstance(value, list | tuple | np.ndarray):
        array = np.array(value, dtype=object)
        if array.size and all(isinstance(x, numbers.Real) for x in array.flat):
            array = array.astype(float)
            array.flat[0] = math.nan
            if name not in entry.get("may_be_nan", ()):
                yield "array with nan", array


def check_call_is_reproducible(entry: Public) -> None:
    """The same arguments give the same result and leave NumPy's global stream alone."""
    before = np.random.get_state()[1].copy()  # noqa: NPY002  the global stream is what we watch
    first, second = (fingerprint(entry.obj(**arguments(entry))) for _ in range(2))
    assert first == second, f"{entry.id}: two equal calls gave different results"
    after = np.random.get_state()[1]  # noqa: NPY002  the global stream is what we watch
    assert np.array_equal(before, after), f"{entry.id} used NumPy's global random stream"


def check_instance_is_immutable(entry: Public) -> None:
    """Objects made by an instance generator cannot be changed by accident."""
    if not entry.get("mutable"):
        _assert_immutable(entry.obj(**arguments(entry)), entry.id, top=True)


def _assert_immutable(value: Any, where: str, *, top: bool = False) -> None:
    if isinstance(value, np.ndarray):
        assert top or not value.flags.writeable, f"{where} is a writable array"
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        frozen = type(value).__dataclass_params__.frozen
        assert frozen, f"{where} is a {type(value).__name__}, a dataclass that is not frozen"
        for field in dataclasses.fields(value):
            _assert_immutable(getattr(value, field.name), f"{where}.{field.name}")
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            _assert_immutable(item, f"{where}[{position}]", top=top)
    else:
        assert top or not isinstance(value, list | set | bytearray), f"{where} is a mutable list"


def check_repr(entry: Public) -> None:
    """`repr` says what it is, briefly."""
    instance = make(entry)
    text = repr(instance)
    assert " object at 0x" not in text, f"{entry.id} has the default repr {text}"
    assert type(instance).__name__ in text, f"the repr of {entry.id} lacks the class name: {text}"
    assert len(text) <= LIMIT_REPR, f"the repr of {entry.id} has {len(text)} characters"


def check_pickle(entry: Public) -> None:
    """Instances travel to worker processes unchanged."""
    if entry.get("no_pickle"):
        return
    instance = make(entry)
    copy = pickle.loads(pickle.dumps(instance))
    assert fingerprint(copy) == fingerprint(instance), f"{entry.id} changes when pickled"


def check_run_is_reproducible(entry: Public) -> None:
    """Two equal objects with the same seed do the same thing."""
    run = entry.get("run")
    first, second = (fingerprint(run(make(entry))) for _ in range(2))
    assert first == second, f"{entry.id}: two runs with the same seed differ"


def check_dataclass_is_frozen(entry: Public) -> None:
    """Public dataclasses are frozen."""
    if not entry.get("mutable"):
        frozen = entry.obj.__dataclass_params__.frozen
        assert frozen, f"{entry.id} is a dataclass that is not frozen"


def check_result(entry: Public) -> None:
    """What has a summary has a text and, unless excused, a frame."""
    instance = make(entry)
    text = instance.summary()
    assert isinstance(text, str), f"{entry.id}.summary() returned a {type(text).__name__}"
    assert text.strip(), f"{entry.id}.summary() is empty"
    if entry.get("no_frame"):
        return
    assert hasattr(instance, "to_frame"), f"{entry.id} has summary() but no to_frame()"
    frame = instance.to_frame()
    assert isinstance(frame, pd.DataFrame), f"{entry.id}.to_frame() is a {type(frame).__name__}"


def _has_picture(kind: Any) -> bool:
    """Whether a class draws something: reports need no picture of their own."""
    return hasattr(kind, "plot") and getattr(kind, "plot", None) is not Report.plot


def check_plot(entry: Public) -> None:
    """`plot()` draws on its own axes and returns them, `plot(ax=ax)` on the given ones."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    instance = make(entry)
    drawn = instance.plot()
    single = np.ravel(np.asarray(drawn, dtype=object))[0]
    assert isinstance(single, Axes | Figure), f"{entry.id}.plot() returned {drawn!r}"
    if isinstance(drawn, Axes):
        axes = Figure().subplots()
        assert instance.plot(ax=axes) is axes, f"{entry.id}.plot(ax=ax) does not return ax"


def check_json_state(entry: Public) -> None:
    """State goes through JSON and back without loss, before and after use."""
    restore = entry.get("restore", entry.obj.from_json)
    instance = make(entry)
    for stage in ("fresh", "used"):
        if stage == "used":
            if not entry.get("run"):
                return
            entry.get("run")(instance)
        text = instance.to_json()
        json.loads(text)
        assert json.loads(restore(text).to_json()) == json.loads(text), (
            f"{entry.id}: the state of a {stage} object changes when restored from JSON"
        )
