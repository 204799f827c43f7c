"""The order of what to do, the rows that would tell, and the share from which hardening pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.auditing.actions import ranked, sum_line
from counterplay.auditing.findings import Action
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.sections.break_even import break_even


def action(name: str, low: float | None, basis: Any = "measured", **more: Any) -> Action:
    gain = None
    if low is not None:
        gain = Quantity(value=low + 10, low=low, high=low + 20, unit="euro", basis=basis, n=100)
    return Action(name=name, title=name, how="by hand", gain=gain, **more)


def test_blocking_first_then_by_lower_end_then_not_worth_it_then_suggestions() -> None:
    given = [
        action("guess", None),
        action("small", 5),
        action("bad", -30),
        action("found", 8, "found"),
        action("exact", 8, "exact"),
        action("cheap", 8, "exact", effort=0),
        action("unsure", -3),
        action("stop", None, blocking=True),
    ]
    order = [a.name for a in ranked(given)]
    assert order == ["stop", "cheap", "exact", "found", "small", "unsure", "bad", "guess"]
    assert [a.advised for a in ranked(given)] == [False] + [True] * 4 + [False] * 3


def test_rows_that_would_tell() -> None:
    (unsure,) = ranked([action("x", -3)])
    assert int(np.ceil(100 * (10 / 7) ** 2)) == 205
    assert unsure.rows_needed == 210  # two digits
    assert ranked([action("x", 5)])[0].rows_needed is None  # it tells already
    assert ranked([action("x", -30)])[0].rows_needed is None  # it would be a loss


def test_the_sum_line_adds_what_is_advised() -> None:
    line = sum_line(ranked([action("a", 5), action("b", 8), action("c", -30)]), "euro")
    assert line.startswith("The 2 advised actions together gain 33 euro")
    assert sum_line([], "euro") == ""
    left = Quantity(value=40, low=35, high=45, unit="euro", basis="measured")
    cut = action("cut", 5, credit=1)
    one = "The advised action gains 15 euro."
    assert sum_line([cut], "euro", left) == f"{one} A cost of 40 [35, 45] remains."
    assert sum_line([action("else", 5)], "euro", left) == one  # what it leaves is not known


@pytest.mark.claim("27.14")
def test_break_even_is_where_the_costs_cross() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for c0, c1, h0, h1 in rng.integers(0, 12, size=(400, 4)).astype(float):
        found = break_even(c0, c1, h0, h1)
        seen.add(found.kind)

        def gain(s: float, costs: tuple[float, ...] = (c0, c1, h0, h1)) -> float:
            a, b, c, d = costs
            return (1 - s) * a + s * b - ((1 - s) * c + s * d)

        if found.kind == "never":
            assert gain(0) <= 0
            assert gain(1) <= 0
        elif found.kind == "always":
            assert gain(0) >= 0
            assert gain(1) >= 0
            assert found.share == 0
        else:
            low, high = 0.0, 1.0
            rising = gain(1) > gain(0)
            for _ in range(60):
                middle = (low + high) / 2
                if (gain(middle) > 0) == rising:
                    high = middle
                else:
                    low = middle
            assert found.share == pytest.approx(high, abs=1e-9)
            assert (found.kind == "from") == rising
    assert seen == {"never", "always", "from", "below"}
