"""Checks for classes that follow the scikit-learn interface."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from functools import partial

import numpy as np
from contract_compare import fingerprint
from contract_discovery import Public, assert_rejected, data, make


def check_parameters(entry: Public) -> None:
    """`get_params`, `set_params` and `clone` agree."""
    from sklearn.base import clone

    estimator = make(entry)
    parameters = estimator.get_params(deep=False)
    copy = clone(estimator)
    assert type(copy) is type(estimator)
    assert fingerprint(copy.get_params()) == fingerprint(estimator.get_params())
    assert copy.set_params(**parameters) is copy


def check_init_does_no_work(entry: Public) -> None:
    """`__init__` stores its arguments and nothing else."""
    estimator = make(entry)
    names = set(inspect.signature(type(estimator).__init__).parameters) - {"self"}
    strange = set(vars(estimator)) - names
    assert not strange, f"{entry.id}.__init__ sets more than its parameters: {sorted(strange)}"
    parameters = estimator.get_params(deep=False)
    rebuilt = type(estimator)(**parameters)
    for name, value in parameters.items():
        assert getattr(rebuilt, name) is value, f"{entry.id}.__init__ changes {name}"


def check_fit(entry: Public) -> None:
    """`fit` returns the estimator and sets attributes that end in an underscore."""
    estimator = make(entry)
    x, y, extra = data(entry)
    before = set(vars(estimator))
    assert estimator.fit(x, y, **extra) is estimator, f"{entry.id}.fit does not return self"
    new = set(vars(estimator)) - before
    fitted = {name for name in new if name.endswith("_") and not name.startswith("_")}
    assert fitted, f"{entry.id}.fit sets no attribute that ends in an underscore"
    strange = {name for name in new - fitted if not name.startswith("_")}
    assert not strange, f"{entry.id}.fit sets {sorted(strange)}; fitted attributes end in _"


def check_fit_is_reproducible(entry: Public) -> None:
    """The same seed and data give the same predictions, and the data stay as they were."""
    x, y, extra = data(entry)
    kept = fingerprint((x, y))
    answers = []
    for _ in range(2):
        estimator = make(entry).fit(x, y, **extra)
        methods = [m for m in ("predict", "transform") if hasattr(estimator, m)]
        answers.append([fingerprint(getattr(estimator, method)(x)) for method in methods])
    assert answers[0] == answers[1], f"{entry.id}: the same seed gives different answers"
    assert fingerprint((x, y)) == kept, f"{entry.id} changes its input in place"


def check_fit_rejects_nonsense(entry: Public) -> None:
    """NaN, empty, one-axis, wrong-length and NaN-label data raise a ValueError."""
    x, y, extra = data(entry)
    nan_x = np.array(x, dtype=float)
    nan_x[0, 0] = math.nan
    attempts = {
        "X with NaN": (nan_x, y),
        "empty X": (x[:0], y[:0]),
        "X with one axis": (x[:, 0], y),
        "y shorter than X": (x, y[:-1]),
        "y with NaN": (x, np.where(np.arange(len(y)) == 0, math.nan, y.astype(float))),
    }
    if entry.get("odd_rows"):  # one odd row is left out, or costs its block: never the training
        del attempts["X with NaN"], attempts["y with NaN"]
    for label, (bad_x, bad_y) in attempts.items():
        fit = partial(make(entry).fit, bad_x, bad_y, **extra)
        assert_rejected(fit, f"{entry.id}.fit, {label}", allowed=ValueError)


def check_scikit_learn(entry: Public) -> None:
    """scikit-learn's own checks pass where its contract applies."""
    from sklearn.utils.estimator_checks import check_estimator

    applies = entry.get("check_estimator", True)
    if isinstance(applies, str):
        return
    expected = applies if isinstance(applies, Mapping) else None
    results = check_estimator(
        make(entry), expected_failed_checks=expected, on_fail=None, on_skip=None
    )
    failed = [
        f"{r['check_name']}: {str(r['exception']).strip().splitlines()[:1]}"
        for r in results
        if r["status"] == "failed"
    ]
    assert not failed, f"{entry.id} fails scikit-learn checks:\n  " + "\n  ".join(failed)
    unneeded = set(expected or ()) & {
        r["check_name"] for r in results if r["status"] == "passed"
    } - {r["check_name"] for r in results if r["status"] == "xfail"}
    assert not unneeded, f"{entry.id}: expected failures that pass: {sorted(unneeded)}"
