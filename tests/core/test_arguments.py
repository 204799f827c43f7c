"""Arguments of the wrong kind are refused in one sentence; the right ones pass unchanged."""

from __future__ import annotations

import doctest
import inspect
import math
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence  # noqa: F401  in annotations
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.typing import ArrayLike, NDArray  # noqa: F401
from sklearn.base import BaseEstimator

from counterplay.core.arguments import check_parameters, checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, FloatArray, IntArray  # noqa: F401
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import fractions as late

    from a_package_that_is_not_there import Ghost  # noqa: F401

HUGE = 10**5000
Mode = Literal["up", "down", 0]


class Speaker(Protocol):
    name: str

    def speak(self) -> str: ...


class Dog:
    name = "Rex"

    def speak(self) -> str:
        """Say something."""
        return "wau"


def one(annotation: str, **options: Any) -> Callable[[Any], Any]:
    """Return a checked function of one argument ``x`` with the given annotation."""
    space: dict[str, Any] = {}
    exec("def probe(x):\n    return x", globals(), space)
    probe = space["probe"]
    probe.__annotations__ = {"x": annotation}
    probe.__module__ = __name__
    return checked(**options)(probe) if options else checked(probe)


RIGHT = {
    "int": [0, -3, 2**63, np.int8(4)],
    "float": [0.5, 3, np.float32(2), Fraction(1, 3)],
    "bool": [True, np.bool_(False)],
    "str": ["", "a", np.str_("b")],
    "int | None": [None, 4],
    "Mode": ["up", 0, np.int64(0)],
    "RandomState": [None, 3, np.random.default_rng(0), np.random.RandomState(0)],
    "Sequence[int]": [[1, 2], (), range(3), np.arange(3)],
    "tuple[float, float]": [(0, 1.5), [1, 2]],
    "tuple[str, ...]": [("a",), []],
    "Sequence[Sequence[int]] | None": [None, [[1], [2, 3]]],
    "Iterable[int]": [{1, 2}, (i for i in range(3)), [1]],
    "Mapping[str, float]": [{}, {"a": 1}],
    "ArrayLike": [3, [1, 2], [[1, 2.5]], ["a", "b"], range(3), np.zeros((2, 2)), [], [np.ones(2)]],
    "ArrayLike | None": [None, [1.0]],
    "FiniteClass | ArrayLike": [FiniteClass.thresholds([0, 1]), [[0, 1]]],
    "FloatArray": [
        [1.0],
        np.ones(3, dtype=np.float16),
        np.array([1, Fraction(1, 2)], dtype=object),
    ],
    "IntArray": [[1, 2], np.array([True])],
    "BoolArray": [np.array([True]), [0, 1]],
    "NDArray[Any]": [np.array(["a"]), [1]],
    "Speaker": [Dog()],
    "Callable[[int], int]": [len, lambda x: x],
    "FiniteClass": [FiniteClass.thresholds([0, 1])],
    "late.Fraction | None": [None, Fraction(1, 2)],
    "Any": [object(), HUGE],
    "Nowhere": [object()],
}
WRONG = {
    "int": ["seven", 1.0, True, None, [1], 2j, HUGE, np.float64(1), np.bool_(True)],
    "float": ["1", True, None, 1j, math.nan, math.inf, -math.inf, HUGE, [0.5], np.bool_(True)],
    "bool": [0, 1, "yes", None],
    "str": [b"a", 1, None, ["a"]],
    "int | None": ["a", 1.5],
    "Mode": ["left", False, 0.0, None, [1], np.array(["up", "down"])],
    "RandomState": ["a", 1.5, True],
    "Sequence[int]": ["12", {1, 2}, {1: 2}, (i for i in range(3)), [1, "a"], [1.5], 3, None],
    "tuple[float, float]": [(1.0,), (1, 2, 3), "ab", ("a", 1)],
    "tuple[str, ...]": ["abc", (1,)],
    "Iterable[int]": ["12", 3, ["a"]],
    "Mapping[str, float]": [{"a": "b"}, {1: 1.0}, [("a", 1)], None],
    "ArrayLike": [
        {1: 2}, {1}, (i for i in "ab"), len, 1j, [1j], [[1], [1, 2]], None, [None], [object()],
        b"a", np.array([1j]), np.array([None]), np.array(["2020-01-01"], dtype="M8[D]"), [1, "a"],
        Dog,
        scipy.sparse.eye(3), pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), [HUGE],
    ],
    "ArrayLike | None": ["\0" * 3 and {1}, [[1], 2]],
    "FloatArray": [["a"], np.array(["a"]), [1j], {}],
    "IntArray": [[1.5], np.ones(2), ["a"]],
    "BoolArray": [[0.5], ["a"]],
    "Speaker": [3, Dog, "wau"],
    "Callable[[int], int]": [3, None],
    "FiniteClass": [3, FiniteClass, None, [[0, 1]]],
    "late.Fraction | None": [0.5, "1/2"],
    "Ghost | None": [3],
}  # fmt: skip


@pytest.mark.parametrize("annotation", RIGHT)
def test_the_right_kind_passes_unchanged(annotation: str) -> None:
    probe = one(annotation)
    for value in RIGHT[annotation]:
        assert probe(value) is value
        assert probe(x=value) is value


@pytest.mark.parametrize("annotation", WRONG)
def test_the_wrong_kind_is_refused_in_one_short_sentence(annotation: str) -> None:
    probe = one(annotation)
    for value in WRONG[annotation]:
        for args, kwargs in (((value,), {}), ((), {"x": value})):
            with pytest.raises(InvalidInputError, match=r"^x must be .*, got ") as caught:
                probe(*args, **kwargs)
            assert len(str(caught.value)) <= 300
            assert "\n" not in str(caught.value)


@checked
def scaled(values: ArrayLike, factor: float = 2.0, *, times: int = 1, mode: Mode = "up") -> Any:
    """Scale.

    >>> scaled([1.0])
    array([2.])
    """
    return np.asarray(values) * factor**times


def test_the_sentence_names_argument_kind_and_value() -> None:
    with pytest.raises(InvalidInputError) as caught:
        scaled([1.0], times="seven")  # type: ignore[arg-type]
    assert str(caught.value) == "times must be an integer, got 'seven'"
    with pytest.raises(
        InvalidInputError, match=r"^mode must be 'up', 'down' or 0, got 'sideways'$"
    ):
        scaled([1.0], mode="sideways")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"^factor must be a finite number, got nan$"):
        scaled([1.0], math.nan)


def test_a_long_value_is_shortened() -> None:
    for value in ("x" * 25_000, HUGE, ["y" * 25_000] * 9, np.full(9, "z" * 99), {"a": "b" * 900}):
        with pytest.raises(InvalidInputError) as caught:
            scaled([1.0], times=value)  # type: ignore[arg-type]
        assert len(str(caught.value)) <= 240


def test_deep_nests_are_refused_and_not_followed() -> None:
    nest: list[Any] = []
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(InvalidInputError, match="values must be an array"):
        scaled(nest)


def test_unknown_and_missing_keywords_stay_type_errors() -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        scaled([1.0], colour=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing 1 required"):
        scaled()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        scaled([1.0], 2.0, 3)  # type: ignore[misc]


def test_signature_docstring_doctest_and_pickle_survive() -> None:
    assert list(inspect.signature(scaled).parameters) == ["values", "factor", "times", "mode"]
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    found = doctest.DocTestFinder().find(inspect.getmodule(scaled), "here")
    assert any(test.name == "here.scaled" and test.examples for test in found)


def test_nonfinite_numbers_pass_where_they_are_allowed() -> None:
    assert one("float", nonfinite=("x",))(math.inf) == math.inf
    with pytest.raises(InvalidInputError):
        one("float", nonfinite=("y",))(math.inf)

    @checked
    def far(limit: float = math.inf) -> float:
        return limit

    assert far(math.inf) == math.inf


@dataclass(frozen=True)
class Base:
    weights: FloatArray
    late_one: late.Fraction | None = None


@checked
@dataclass(frozen=True)
class Record(Base):
    name: str = ""
    value: float = 0.0


def test_frozen_dataclasses_check_inherited_fields_and_copies() -> None:
    record = Record(np.ones(2), name="a", value=math.nan)
    assert pickle.loads(pickle.dumps(record)).name == "a"
    assert replace(record, name="b").name == "b"
    for wrong in ({"weights": {}}, {"name": 3}, {"value": "x"}, {"late_one": 0.5}):
        with pytest.raises(InvalidInputError, match=f"^{next(iter(wrong))} must be"):
            replace(record, **wrong)  # type: ignore[arg-type]


def test_strict_arrays_are_numpy_arrays() -> None:
    strict = one("FloatArray", arrays=True)
    assert strict(np.ones(2)).sum() == 2
    for wrong in ([1.0], np.array(["a"]), 3.0):
        with pytest.raises(InvalidInputError, match=r"^x must be a NumPy array of numbers, got"):
            strict(wrong)


def test_plain_classes_and_their_children() -> None:
    @checked
    class Parent:
        def __init__(self, n: int) -> None:
            self.n = n

    @checked
    class Child(Parent):
        """Has no constructor of its own."""

    @checked
    class Empty:
        """Has no constructor at all."""

    assert Child(3).n == 3
    assert "__init__" not in vars(Child)
    assert isinstance(Empty(), Empty)
    with pytest.raises(InvalidInputError, match="n must be an integer, got 'a'"):
        Child("a")  # type: ignore[arg-type]


class Model(BaseEstimator):
    def __init__(self, depth: int = 3, rate: float | None = None, random_state: RandomState = None):
        self.depth = depth
        self.rate = rate
        self.random_state = random_state


def test_parameters_of_estimators() -> None:
    check_parameters(Model())
    check_parameters(Model(depth=1, rate=0.5, random_state=np.random.default_rng(0)))
    with pytest.raises(InvalidInputError, match="depth must be an integer, got 'deep'"):
        check_parameters(Model(depth="deep"))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="rate must be a finite number or None, got nan"):
        check_parameters(Model(rate=math.nan))
    check_parameters(Model(rate=math.inf), nonfinite=("rate",))


def test_large_arrays_and_frames_are_not_copied() -> None:
    import tracemalloc

    big = np.zeros((1000, 1000))
    frame = pd.DataFrame(big)
    probe = one("ArrayLike")
    probe([1.0])
    tracemalloc.start()
    probe(big)
    probe(frame)
    probe(big.T[::2])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("annotation", ["tuple[int, int]", "Sequence[int]", "tuple[int, ...]"])
def test_a_sparse_matrix_is_no_sequence(annotation: str) -> None:
    with pytest.raises(InvalidInputError, match="csr"):
        one(annotation)(scipy.sparse.csr_matrix(np.eye(3)))
