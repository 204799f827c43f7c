"""The search over boxes against everything there is, and against integer programming."""

from __future__ import annotations

import pytest

from counterplay.strategic.tree_milp import cheapest_by_milp
from counterplay.strategic.tree_search import search_people
from counterplay.studies.strategic.credit_tables import STAND_IN
from counterplay.studies.strategic.moves_enumeration import COMBINES, KINDS, compared, random_case
from counterplay.studies.strategic.moves_programs import MOVES_PROGRAMS


@pytest.mark.claim("20.04", "20.19")
@pytest.mark.parametrize("kind", KINDS)
def test_random_ensembles_equal_enumeration_of_all_cells(kind: str) -> None:
    for seed in range(2):
        case = random_case(kind, seed)
        for combine in COMBINES:
            found = compared(case, combine, people=3)
            assert found["cases"] == 3
            assert found["differ"] == 0, (seed, combine)


@pytest.mark.claim("20.05")
def test_the_search_equals_integer_programming() -> None:
    for kind in KINDS[:3]:
        solver, prices = random_case(kind, 1).solver("sum", 3)
        cells, target = solver.cells, solver.target
        low, high, _ = search_people(cells, prices, cells.own, target, 3.0, 1.0, 10**6)
        for i in range(len(low)):
            a, b = cheapest_by_milp(cells, prices, cells.own, i, target, 3.0)
            assert a == b
            assert high[i] == pytest.approx(b, abs=1e-6)


@pytest.mark.claim("20.05")
def test_the_search_equals_a_program_that_knows_nothing_of_it() -> None:
    params = {"data": STAND_IN, "model": "GB", "trees": 10, "first": 0, "people": 4}
    found = MOVES_PROGRAMS.cell(params, 0)
    assert found["compared"] == 4
    assert found["differ"] == 0
