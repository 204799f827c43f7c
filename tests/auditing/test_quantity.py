"""Numbers carry their basis; a derived one has the weakest."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from counterplay.auditing.intervals import Bootstrap
from counterplay.auditing.quantity import BASES, Quantity, number_text, quantity_key, weakest
from counterplay.errors import InvalidInputError


def test_the_weakest_basis_wins() -> None:
    for one, two in itertools.product(BASES, BASES):
        assert BASES.index(weakest([one, two])) == max(BASES.index(one), BASES.index(two))


@pytest.mark.parametrize("ends", [(float("nan"), 0, 1), (0.5, 2, 1), (0.5, 0, float("inf"))])
def test_ends_must_be_numbers_in_order(ends: tuple[float, float, float]) -> None:
    value, low, high = ends
    with pytest.raises(InvalidInputError, match="finite numbers low <= high"):
        Quantity(value=value, low=low, high=high, unit="rows", basis="measured")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.75, "share", "0.750"),
        (1354.2, "marks", "1,354"),
        (7.5, "rows", "7.5"),
        (16.5, "rows", "16.5"),
        (-0.4, "x", "-0.4"),
    ],
)
def test_numbers_are_written_for_people(value: float, unit: str, text: str) -> None:
    assert number_text(value, unit) == text


def test_the_key_of_a_quantity_does_not_depend_on_how_a_number_is_written() -> None:
    assert quantity_key("a", {"b": 1}) == quantity_key("a", {"b": 1.0}) == "a at b=1"


def test_many_rows_with_few_costs_are_drawn_by_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law of the mean is the same: ends agree within what draws differ by."""
    n = 6000
    cost = np.repeat([[0.0, 1.0], [1.0, 0.0], [5.0, 2.0]], n // 3, axis=0)
    counted = Bootstrap(n, 0).means(cost)
    monkeypatch.setattr("counterplay.auditing.intervals._MANY", n)
    drawn = Bootstrap(n, 0).means(cost)
    spread = drawn.std(axis=0)
    np.testing.assert_allclose(counted.mean(axis=0), drawn.mean(axis=0), atol=spread.max() / 5)
    np.testing.assert_allclose(counted.std(axis=0), spread, rtol=0.1)
    both = [np.corrcoef(means.T)[0, 1] for means in (counted, drawn)]
    assert abs(both[0] - both[1]) < 0.1  # differences are paired
    monkeypatch.undo()
    many = np.random.default_rng(0).random(n)  # every row has a cost of its own
    assert (Bootstrap(n, 0).means(many) == Bootstrap(n, 0).means(many)).all()
