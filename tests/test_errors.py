"""Every error belongs to one family and bad input is also a ValueError."""

import pytest

from counterplay import errors


@pytest.mark.parametrize("name", [n for n in errors.__all__ if n.endswith("Error")])
def test_one_family(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, errors.CounterplayError)
    assert kind.__doc__


def test_all_errors_are_public() -> None:
    found = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, Exception)
        and "counterplay" in value.__module__
    }
    assert found == set(errors.__all__)


def test_bad_input_is_a_value_error() -> None:
    for kind in (
        errors.InvalidInputError,
        errors.UnknownNameError,
        errors.NotRealizableError,
        errors.ContradictionError,
        errors.InfeasibleError,
    ):
        assert issubclass(kind, ValueError)
    assert issubclass(errors.AssumptionWarning, errors.CounterplayWarning)
    assert issubclass(errors.CounterplayWarning, UserWarning)
    assert issubclass(errors.MissingDependencyError, ImportError)
    assert issubclass(errors.DataUnavailableError, OSError)


def test_unknown_name_suggests_the_nearest() -> None:
    near = errors.UnknownNameError.among("study", "halvng", ["halving", "boost"])
    assert str(near) == "there is no study named 'halvng'; did you mean 'halving'?"
    upper = errors.UnknownNameError.among("study", "HALVING", ["halving", "boost"])
    assert "did you mean 'halving'?" in str(upper)
    far = errors.UnknownNameError.among("study", "zzz", ["b", "a"])
    assert str(far) == "there is no study named 'zzz'; known: a, b."
    unlike = errors.UnknownNameError.among("command", "nope", ["offer", "run"])
    assert str(unlike) == "there is no command named 'nope'; known: offer, run."
    many = errors.UnknownNameError.among("column", "zzz", [f"c{i:03d}" for i in range(100)])
    assert "c019, and 80 more." in str(many)
    assert "c020" not in str(many)


def test_details_are_kept() -> None:
    error = errors.NotRealizableError("no", round=3, item="x")
    assert (error.round, error.item, str(error)) == (3, "x", "no")
    assert errors.ContradictionError("no", conflict=[1, 2]).conflict == (1, 2)
    missing = errors.MissingDependencyError.for_extra("torch", "federated")
    assert "pip install 'counterplay[federated]'" in str(missing)
