"""Catalogues."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from counterplay.elicitation import (
    Catalogue,
    LinearPreferenceUser,
    PolytopeElicitor,
    answered_by,
)
from counterplay.elicitation.lab import (
    undominated,
)
from counterplay.errors import InvalidInputError, UnknownNameError


def test_range_and_max_scaling() -> None:
    cars = pd.DataFrame({"km": [300.0, 600.0, 450.0], "price": [20e3, 50e3, 30e3]})
    ranged = Catalogue(cars, benefits=["km"], costs=["price"]).values
    assert ranged == pytest.approx(np.array([[0, 1], [1, 0], [0.5, 2 / 3]]))
    by_max = Catalogue(cars, benefits=["km"], costs=["price"], scale="max").values
    assert by_max == pytest.approx(np.array([[0.5, 0.6], [1, 0], [0.75, 0.4]]))
    negative = cars.assign(km=[-1.0, 0.0, 1.0])
    with pytest.raises(InvalidInputError, match="runs from -1 to 1"):
        Catalogue(negative, benefits=["km"], scale="max")


def test_names_and_descriptions_are_in_original_units() -> None:
    frame = pd.DataFrame({"model": ["A", "B"], "km": [1234.5, 10.0], "price": [12345.0, 10.0]})
    catalogue = Catalogue(frame, benefits=["km"], costs=["price"], name="model")
    assert catalogue.describe(0) == "A: km 1,234, price 12,345"
    assert catalogue.describe(-1).startswith("nothing")
    assert "2 items" in repr(catalogue)


@pytest.mark.parametrize("scale", ["range", "max"])
def test_volunteered_vectors_are_in_the_units_of_the_columns(scale: str) -> None:
    """Of two equally good items the cheaper one is preferred by everybody."""
    frame = pd.DataFrame({"quality": [1.0, 2.0, 3.0], "price": [10.0, 20.0, 30.0]})
    catalogue = Catalogue(frame, ["quality"], ["price"], scale=scale)  # type: ignore[arg-type]
    assert catalogue.normalise(frame.to_numpy()) == pytest.approx(catalogue.values)
    agreed = PolytopeElicitor(catalogue, random_state=0)
    agreed.volunteer([2.0, 10.0], [2.0, 20.0], "first")
    assert agreed.result().contradictions == ()
    absurd = PolytopeElicitor(catalogue, random_state=0)
    absurd.volunteer([2.0, 10.0], [2.0, 20.0], "second")
    assert absurd.result().contradictions[0].set_aside == (0,)
    by_row, by_units = (PolytopeElicitor(catalogue, random_state=0) for _ in range(2))
    by_row.volunteer(2, 0, "first")
    by_units.volunteer([3.0, 30.0], [1.0, 10.0], "first")
    assert by_units.events[0].difference == pytest.approx(by_row.events[0].difference)
    with pytest.raises(InvalidInputError, match="one number for each of quality, price"):
        agreed.volunteer([1.0], [2.0], "first")
    table = PolytopeElicitor([[1.0, 0.0], [0.0, 1.0]], random_state=0)
    table.volunteer([0.5, 1.0], [0.5, 0.0], "first")  # plain tables: more is better
    assert table.result().contradictions == ()


def test_unknown_columns_are_suggested() -> None:
    frame = pd.DataFrame({"price": [1.0, 2.0]})
    with pytest.raises(UnknownNameError, match="did you mean 'price'"):
        Catalogue(frame, costs=["prize"])


def test_missing_values_are_named() -> None:
    frame = pd.DataFrame({"price": [1.0, np.nan]})
    with pytest.raises(InvalidInputError, match="row 1 has no finite number in column 'price'"):
        Catalogue(frame, costs=["price"])


def test_undominated_agrees_with_the_definition() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = np.round(rng.random((40, 3)), 1)  # with ties and copies
        kept = undominated(values)
        for i in range(40):
            beaten = [
                j
                for j in range(40)
                if (values[j] >= values[i]).all() and (values[j] > values[i]).any()
            ]
            copy = any((values[j] == values[i]).all() for j in kept if j != i)
            assert (i in kept) == (not beaten and not (copy and i not in kept))


DATA = os.environ.get("COUNTERPLAY_DATA", "")


@pytest.mark.skipif(
    not DATA or not (Path(DATA) / "laptops.parquet").exists(),
    reason="COUNTERPLAY_DATA does not hold laptops.parquet",
)
def test_real_laptops() -> None:
    pytest.importorskip("pyarrow")
    frame = pd.read_parquet(Path(DATA) / "laptops.parquet")
    catalogue = Catalogue(
        frame,
        benefits=["RAM (GB)", "CPU_Frequency (GHz)"],
        costs=["Price (Euro)", "Weight (kg)"],
        name="Product",
    )
    counts = []
    for seed in range(10):
        w = np.random.default_rng(seed).dirichlet(np.ones(4)) + 0.3
        result = answered_by(
            PolytopeElicitor(catalogue, random_state=0), LinearPreferenceUser(w, 1e-3)
        )
        worth = catalogue.values @ w
        assert 1 - worth[result.index] / worth.max() <= result.regret_certificate + 1e-9
        counts.append(result.n_queries)
    assert np.median(counts) <= 12


def test_items_keep_their_rows() -> None:
    """Extra columns do not matter, items are known by the index of the frame."""
    frame = pd.DataFrame(
        {"shop": list("xyz"), "price": [3.0, 1.0, 2.0], "quality": [9, 1, 5]},
        index=["red", "blue", "green"],
    )
    catalogue = Catalogue(frame, benefits=["quality"], costs=["price"])
    session = PolytopeElicitor(catalogue, random_state=0)
    result = answered_by(session, LinearPreferenceUser([1.0, 0.1], eps=1e-3))
    assert (result.row, result.index) == ("red", 0)
    assert set(session.ranking().index) <= {"red", "blue", "green"}
    assert session.ranking().index[0] == "red"
    other = frame[["quality", "price"]].iloc[::-1]
    again = Catalogue(other, benefits=["quality"], costs=["price"])
    assert again.values[::-1].tolist() == catalogue.values.tolist()
    with pytest.raises(InvalidInputError, match="row 'green' has '2 Euro' in column 'price'"):
        Catalogue(frame.assign(price=["3", "1", "2 Euro"]), costs=["price"])
