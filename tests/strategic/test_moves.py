"""What people can change: validation, prices, units, files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.strategic.changes import Change, Switch
from counterplay.strategic.moves import Moves

PEOPLE = pd.DataFrame(
    {
        "income": np.linspace(10.5, 90.25, 41),
        "late": np.arange(41) % 7,
        "home": np.array(["rent", "own", "free"])[np.arange(41) % 3],
    }
)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Change("up", low=2, high=1), "low is 2 and above high"),
        (lambda: Change("up", step=0), "step must be above 0"),
        (lambda: Change("up", per="step"), "needs a step"),
        (lambda: Change("up", cost=0.0), "cost must be a price above 0"),
        (lambda: Change("up", cost=math.nan), "cost must be a price above 0"),
        (lambda: Change("up", missing=-1.0), "missing must be a price above 0"),
        (lambda: Change("up", hide=0.0), "hide must be a price above 0"),
        (lambda: Change("both", cost=(math.inf, math.inf)), "left out of Moves"),
        (lambda: Change("up", step=1, grid=[1, 2]), "step or grid"),
        (lambda: Switch(1.0, allowed=[("a", "a")]), "another category"),
        (lambda: Switch(1.0, direction="up"), "direction belongs to a ladder"),
        (lambda: Switch({("a", "b"): 0.0}), "must be a price above 0"),
        (lambda: Moves({"incme": Change("up")}, reference=PEOPLE), "did you mean 'income'"),
        (lambda: Moves({"home": Change("up")}, reference=PEOPLE), "holds text; use Switch"),
        (lambda: Moves({"income": Switch(1.0)}, reference=PEOPLE), "holds numbers; use Change"),
        (lambda: Moves({"income": Change("up")}), "needs reference="),
        (lambda: Moves({"a": Change("up")}, reference=pd.DataFrame({"a": [1.5, 1.5]})), "constant"),
        (lambda: Moves({}), "dictionary of columns"),
        (lambda: Moves({"income": 3}, reference=PEOPLE), "must be Change or Switch"),  # type: ignore[dict-item]
        (lambda: Moves({"income": Change("up")}, reference=PEOPLE, budget=-1), "budget must be"),
        (lambda: Moves({"income": Change("up", per="unit", missing=1.0)}), "only within bounds"),
    ],
)
def test_bad_descriptions_are_refused_in_one_sentence(build: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_prices_by_hand() -> None:
    moves = Moves(
        {
            "income": Change("both", cost=(2.0, 0.5), per="unit", low=0, high=200),
            "late": Change("down", step=1, cost=3.0, per="step"),
            "home": Switch(1.0, ladder=["free", "rent", "own"], direction="up"),
        },
        reference=PEOPLE,
    )
    a = PEOPLE.iloc[[1]]  # late 1, own
    up = a.assign(income=a["income"] + 2)
    assert moves.price(a, up).item() == pytest.approx(4.0)
    assert moves.price(up, a).item() == pytest.approx(1.0)
    assert moves.price(a, a.assign(late=0)).item() == 3.0
    assert np.isinf(moves.price(a, a.assign(late=2)).item())  # only downward
    assert np.isinf(moves.price(a, a.assign(late=0.5)).item())  # only whole steps
    assert np.isinf(moves.price(a, a.assign(home="rent")).item())  # only upward
    assert moves.price(a.assign(home="free"), a).item() == 2.0  # two rungs
    assert np.isinf(moves.price(a, a.assign(income=201.0)).item())  # beyond the bound
    both = moves.price(PEOPLE.iloc[:3], PEOPLE.iloc[:4], pairwise=True)
    assert both.shape == (3, 4)
    assert (np.diag(both) == 0).all()


@pytest.mark.parametrize(("combine", "total"), [("sum", 7.0), ("euclid", 5.0), ("max", 4.0)])
def test_how_prices_combine(combine: Any, total: float) -> None:
    moves = Moves({"a": Change("up", per="unit"), "b": Change("up", per="unit")}, combine=combine)
    start, goal = pd.DataFrame({"a": [0.0], "b": [0.0]}), pd.DataFrame({"a": [3.0], "b": [4.0]})
    assert moves.price(start, goal).item() == pytest.approx(total)


def test_units_follow_the_reference() -> None:
    rng = np.random.default_rng(0)
    values = np.append(rng.normal(size=999), 1e6)  # one outlier must not make a column free
    frame = pd.DataFrame({"v": values})
    step = pd.DataFrame({"v": [0.0]}), pd.DataFrame({"v": [1.0]})
    spread = (np.quantile(values, 0.9) - np.quantile(values, 0.1)) / 2.563
    assert Moves({"v": Change("up")}, reference=frame).price(*step).item() == pytest.approx(
        1 / spread
    )
    assert Moves({"v": Change("up", per="sd")}, reference=frame).price(*step).item() < 1e-4
    seen = pd.DataFrame({"v": np.arange(10) + 0.5})
    decile = Moves({"v": Change("up", per="decile")}, reference=seen)
    one = decile.price(pd.DataFrame({"v": [0.5]}), pd.DataFrame({"v": [2.5]}))
    assert one.item() == pytest.approx(2.0)  # two of ten people further


def test_switches_are_closed_under_composition() -> None:
    moves = Moves(
        {"home": Switch({("free", "rent"): 1.0, ("rent", "own"): 1.0, ("free", "own"): 9.0})}
    )
    a, b = pd.DataFrame({"home": ["free"]}), pd.DataFrame({"home": ["own"]})
    assert moves.price(a, b).item() == 2.0
    assert np.isinf(moves.price(b, a).item())


def test_missing_entries_are_kept_filled_or_hidden() -> None:
    gone, here = pd.DataFrame({"v": [np.nan]}), pd.DataFrame({"v": [1.5]})
    keep = Moves({"v": Change("both", per="unit", low=0, high=5)})
    assert np.isinf(keep.price(gone, here).item())
    assert np.isinf(keep.price(here, gone).item())
    free = Moves({"v": Change("down", per="unit", low=0, high=5, missing=0.5, hide=2.0)})
    assert free.price(gone, here).item() == 0.5
    assert free.price(here, gone).item() == 2.0
    # hiding and filling again is not a move: it would undo the direction
    assert np.isinf(free.price(here, pd.DataFrame({"v": [2.0]})).item())


@pytest.mark.claim("20.35")
def test_codes_are_missing_entries_and_do_not_enter_units() -> None:
    clean = pd.DataFrame({"v": np.linspace(0.5, 10, 50)})
    coded = pd.concat([clean, pd.DataFrame({"v": [-9.0] * 10 + [-8.0] * 5})])
    a = Moves({"v": Change("both", codes=[-9, -8])}, reference=coded)
    b = Moves({"v": Change("both")}, reference=clean)
    assert a.blocks["v"].unit == b.blocks["v"].unit  # type: ignore[union-attr]
    assert (a.blocks["v"].low, a.blocks["v"].high) == (0.5, 10.0)  # type: ignore[union-attr]
    wild = Moves({"v": Change("both", codes=[-9], low=-20, per="unit")}, reference=coded)
    code, number = pd.DataFrame({"v": [-9.0]}), pd.DataFrame({"v": [3.0]})
    assert np.isinf(wild.price(code, number).item())
    assert np.isinf(wild.price(number, code).item())


def test_whole_numbers_that_move_by_fractions_are_named() -> None:
    with pytest.warns(AssumptionWarning, match="'late' hold whole numbers"):
        Moves({"late": Change("down")}, reference=PEOPLE)


def test_all_and_ball() -> None:
    everything = Moves.all(PEOPLE, fixed=["home"])
    assert dict(everything.columns) == {
        "income": Change("both"),
        "late": Change("both", step=1.0),
    }
    with pytest.raises(InvalidInputError, match="'hme', which X does not have"):
        Moves.all(PEOPLE, fixed=["hme"])
    ball = Moves.ball(PEOPLE, norm=np.inf, per="sd")
    assert ball.combine == "max"
    assert "home" not in ball.columns
    table = everything.describe()
    assert table.loc["late", "moves to"] == "steps of 1"
    assert table.loc["income", "high"] == 90.25


@pytest.mark.claim("20.32")
def test_a_file_holds_everything_whatever_the_names(tmp_path: Path) -> None:
    odd = 'a "quoted"\\ [x].y = \n#z'
    frame = pd.DataFrame(
        {
            odd: [1.5, 2.5, 4.0],
            "": ["x", 'y"', "z\n"],
            "grade": [1, 2, 3],
            "status": ["A11", "A12", "A13"],
        }
    )
    moves = Moves(
        {
            odd: Change(
                "both", cost=(1.0, 0.25), step=0.5, per="step", low=-1, missing=2.0, hide=3.0
            ),
            "": Switch(0.5, allowed=[("x", 'y"'), ('y"', "z\n")]),
            "grade": Switch(1.0, ladder=[1, 2, 3], direction="down"),
            "status": Switch({("A11", "A12"): 0.5, ("A12", "A13"): 1.0}, missing=0.25),
        },
        reference=frame,
        combine="euclid",
        budget=1.5,
    )
    path = tmp_path / "moves.toml"
    moves.to_toml(path)
    back = Moves.from_toml(path, reference=frame)
    assert dict(back.columns) == dict(moves.columns)
    assert (back.combine, back.budget) == ("euclid", 1.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[movable.income]\ndirction = "up"\ndirection="up"',
            r"dirction is not a setting \(nearest: direction",
        ),
        ('[moves]\ncombin = "sum"\n[movable.income]\ndirection="up"', "nearest: combine"),
        ('[movable.incme]\ndirection = "up"', "did you mean 'income'"),
        ('[movable.income]\ndirection = "up"\nstep = -1', "step must be above 0"),
        ("x = ", "is no TOML file"),
        ("[other]\na = 1", "says what people can change"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "moves.toml"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        Moves.from_toml(path, reference=PEOPLE)


def test_codes_for_all_columns_come_from_outside(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    path.write_text('[audit]\nseed = 1\n[movable.income]\ndirection = "up"\n')
    moves = Moves.from_toml(path, reference=PEOPLE, codes={"*": [-9]})
    assert moves.columns["income"] == Change("up", codes=(-9.0,))
