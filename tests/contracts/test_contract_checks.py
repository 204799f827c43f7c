"""The contract checks catch what they are meant to catch."""

from __future__ import annotations

import json
import math
import types
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import contract_checks as checks
import contract_discovery as discovery
import contract_estimators as estimators
import numpy as np
import pytest
from contract_compare import fingerprint
from contract_discovery import Public
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from counterplay.errors import InvalidInputError


def public(obj: Any, name: str = "thing", **case: Any) -> Public:
    return Public("area", name, obj, case)


def good_bound(n: int) -> float:
    """Return n.

    >>> good_bound(2)
    2.0
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise InvalidInputError(f"n must be a count, got {n!r}")
    return float(n)


def careless_bound(n: float) -> float:
    return n


@dataclass(frozen=True)
class Frozen:
    """A frozen thing.

    >>> Frozen(1).n
    1
    """

    n: Any

    def summary(self) -> str:
        return f"n is {self.n}"

    def to_frame(self) -> Any:
        import pandas as pd

        return pd.DataFrame({"n": [self.n]})


@dataclass
class Soft:
    n: int = 0


@dataclass(frozen=True)
class Sketch:
    how: str

    def plot(self, ax: Any = None) -> Any:
        from matplotlib.figure import Figure

        return 3 if self.how == "nothing" else Figure().subplots()


class Forgetful:
    """Loses its counter on the way through JSON."""

    def __init__(self) -> None:
        self.count = 0

    def to_json(self) -> str:
        return json.dumps({"count": self.count})

    @classmethod
    def from_json(cls, text: str) -> Forgetful:
        return cls()


class Eager(ClassifierMixin, BaseEstimator):
    """Works in its constructor, forgets to return self, accepts anything."""

    def __init__(self, depth: Any = 1) -> None:
        self.depth = [depth]
        self.cache = {}

    def fit(self, x: Any, y: Any) -> None:
        self.answer = 1

    def predict(self, x: Any) -> Any:
        return np.random.default_rng().random(len(x))


def test_good_objects_pass() -> None:
    bound = public(good_bound, "bounds.good_bound", args={"n": 3})
    assert bound.kind == "bound"
    result = public(Frozen, make=lambda: Frozen(2), run=lambda thing: thing.n)
    estimator = public(LogisticRegression, make=lambda: LogisticRegression())
    assert estimator.kind == "estimator"
    for entry in (bound, result, estimator):
        found = [c for c in checks.checks_for(entry) if c is not checks.check_example]
        assert len(found) >= 4
        for check in found:
            check(entry)


@pytest.mark.parametrize(
    ("check", "entry", "message"),
    [
        (checks.check_docstring, public(careless_bound), "no docstring"),
        (checks.check_docstring, public(Soft), "no docstring of its own"),
        (checks.check_example, public(Forgetful), "no example"),
        (checks.check_has_case, Public("area", "thing", good_bound), 'CASES:  "thing"'),
        (checks.check_bad_calls, public(int, bad={"letters": lambda: int("x")}), "ValueError"),
        (checks.check_bad_calls, public(int, bad={"fine": lambda: int("1")}), "accepted"),
        (checks.check_bound_is_finite, public(careless_bound, args={"n": math.inf}), "inf"),
        (checks.check_bound_is_finite, public(careless_bound, args={"n": "x"}), "a number"),
        (checks.check_bound_rejects_nonsense, public(careless_bound, args={"n": 1}), "n=nan"),
        (
            checks.check_bound_rejects_nonsense,
            public(careless_bound, args={"n": 1}, may_be_nan=("n",)),
            "n=-1",
        ),
        (
            checks.check_bound_rejects_nonsense,
            public(careless_bound, args={"n": [1.0, 2.0]}),
            "array with nan",
        ),
        (
            checks.check_call_is_reproducible,
            public(lambda: np.random.default_rng().random(), args={}),
            "different results",
        ),
        (
            checks.check_call_is_reproducible,
            public(lambda: (np.random.seed(0), np.random.random(), 0)[2], args={}),  # noqa: NPY002  the sin that is caught
            "global random stream",
        ),
        (checks.check_instance_is_immutable, public(Soft, args={}), "not frozen"),
        (
            checks.check_instance_is_immutable,
            public(Frozen, args={"n": np.zeros(2)}),
            "n is a writable array",
        ),
        (checks.check_instance_is_immutable, public(Frozen, args={"n": [1]}), "mutable"),
        (checks.check_repr, public(Forgetful, make=Forgetful), "default repr"),
        (checks.check_repr, public(Soft), 'lacks "make"'),
        (checks.check_dataclass_is_frozen, public(Soft), "not frozen"),
        (
            checks.check_run_is_reproducible,
            public(Soft, make=Soft, run=lambda _: np.random.default_rng().random()),
            "differ",
        ),
        (
            checks.check_json_state,
            public(Forgetful, make=Forgetful, run=lambda f: setattr(f, "count", 3)),
            "used object changes",
        ),
        (checks.check_result, public(Frozen, make=lambda: _silent()), "is empty"),
        (checks.check_plot, public(Frozen, make=lambda: Sketch("nothing")), "plot() returned"),
        (checks.check_plot, public(Frozen, make=lambda: Sketch("own")), "does not return ax"),
        (estimators.check_parameters, public(Eager, make=Eager), ""),
        (estimators.check_init_does_no_work, public(Eager, make=Eager), "cache"),
        (estimators.check_fit, public(Eager, make=Eager), "return self"),
        (estimators.check_fit_rejects_nonsense, public(Eager, make=Eager), "X with NaN: accepted"),
        (
            estimators.check_scikit_learn,
            public(LogisticRegression, make=lambda: _Constant()),
            "check_",
        ),
        (
            estimators.check_scikit_learn,
            public(
                LogisticRegression,
                make=LogisticRegression,
                check_estimator={"check_estimators_nan_inf": "not true"},
            ),
            "expected failures that pass",
        ),
    ],
)
def test_bad_objects_are_caught(check: Any, entry: Public, message: str) -> None:
    with pytest.raises((AssertionError, RuntimeError), match=None) as caught:
        check(entry)
    assert message in str(caught.value)


def _silent() -> Any:
    class Silent(Frozen):
        def summary(self) -> str:
            return "  "

    return Silent(1)


class _Constant(ClassifierMixin, BaseEstimator):
    def fit(self, x: Any, y: Any) -> _Constant:
        self.classes_ = np.unique(y)
        return self

    def predict(self, x: Any) -> Any:
        return np.full(len(x), self.classes_[0])


def test_discovery_finds_public_names_and_stale_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    area = types.ModuleType("counterplay.fake")
    area.__path__ = []  # type: ignore[attr-defined]  # makes it a package
    area.__all__ = ["Frozen", "tools"]  # type: ignore[attr-defined]
    area.Frozen = Frozen  # type: ignore[attr-defined]
    area.tools = types.ModuleType("counterplay.fake.tools")  # type: ignore[attr-defined]
    exec("def helper():\n    'Help.'\n\ndef _hidden(): ...", vars(area.tools))
    monkeypatch.setattr(discovery.importlib, "import_module", lambda name: area)
    monkeypatch.setattr(
        discovery.importlib.util,
        "find_spec",
        lambda name: types.SimpleNamespace(origin="x") if name == area.__name__ else None,
    )
    monkeypatch.setattr(discovery, "load_cases", lambda area: {"Frozen": {}, "gone": {}})
    entries = discovery.discover("fake")
    assert [entry.name for entry in entries] == ["Frozen", "tools.helper", "(stale cases)"]
    assert checks.checks_for(entries[-1]) == [checks.check_no_stale_cases]
    with pytest.raises(AssertionError, match="gone"):
        checks.check_no_stale_cases(entries[-1])


@pytest.mark.parametrize("alias", [Literal["a", "b"], int | None, list[int], TypeVar("T")])
def test_type_aliases_are_values(alias: Any) -> None:
    assert public(alias).kind == "value"
    assert checks.checks_for(public(alias)) == []


def test_absent_area_is_skipped() -> None:
    assert discovery.discover("no_such_area") == []


def test_unknown_key_in_a_case_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "cases_oddkey.py").write_text('CASES = {"a": {"mak": 1}}')
    monkeypatch.setattr(discovery, "FOLDER", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TypeError, match="'mak'"):
        discovery.load_cases("oddkey")


def test_fingerprint_sees_small_differences() -> None:
    assert fingerprint({"a": [1.0, np.array([1, 2])]}) == fingerprint(
        {"a": [1.0, np.array([1, 2])]}
    )
    assert fingerprint(0.1 + 0.2) != fingerprint(0.3)
    assert fingerprint(np.float32(1)) != fingerprint(np.float64(1))
    assert fingerprint(np.random.default_rng(0)) != fingerprint(np.random.default_rng(1))
    assert fingerprint(Soft(1)) != fingerprint(Soft(2))
