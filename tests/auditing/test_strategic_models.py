"""The strategic area inside an audit: its classifiers, links between columns, cells to fill."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from auditing.bench_tables import boosted, context_of, people, run
from counterplay import audit
from counterplay.auditing.sections import GamingSection, HonestSection, gaming
from counterplay.auditing.sections.gaming import moves_of
from counterplay.auditing.sections.gaming_rules import AS_IS, HARDENED, STRATEGIC, rules_from
from counterplay.auditing.sections.gaming_strategic import (
    fitted_rule,
    preparation,
    strategic_stage,
)
from counterplay.strategic import (
    Moves,
    StrategicERM,
    StrategicLinearClassifier,
    cheapest_moves,
    gaming_report,
    rethreshold,
)

MOVABLE = {"debt": {"direction": "down", "step": 1.0, "cost": 0.5, "per": "step", "low": 0.0}}
CONFIG = {
    "data": {"label": "paid", "positive": 1, "rows": "heldout"}, "movable": MOVABLE,
    "effort": {"budgets": [1]}, "costs": {"false_accept": 5, "false_reject": 1},
}  # fmt: skip


def numbers(n: int = 160, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    frame, y = people(n, seed)
    return frame[["debt", "income"]], y


def strategic_model(name: str) -> Any:
    """A fitted model of the strategic area."""
    X, y = numbers()
    if name == "erm":
        X, y = X[["debt"]].iloc[:60], y[:60]
    moves = Moves.from_toml({"movable": MOVABLE}, reference=X)
    if name == "linear":
        return StrategicLinearClassifier(moves, budget=1.0, positive=1).fit(X, y)
    if name == "erm":
        return StrategicERM(moves=moves, budget=1.0, positive=1).fit(X, y)
    base = LogisticRegression().fit(X, y)
    return rethreshold(base, X, y, moves, [0.0, 1.0], positive=1).model


@pytest.mark.parametrize("name", ["linear", "erm", "rethreshold"])
def test_a_strategic_model_is_audited_like_any_other(name: str) -> None:
    model = strategic_model(name)
    X, y = numbers(200, seed=5)
    X = X[["debt"]] if name == "erm" else X
    found = audit(model, X.assign(paid=y), config=CONFIG, sections=["gaming"], time_budget=600.0)
    assert not [section for section in found.record.absent if section.failed]
    assert found.honest.accuracy.value == np.mean(model.predict(X) == y)
    table = found.sections["gaming"].to_frame().set_index("rule").loc[AS_IS]
    moves = Moves.from_toml({"movable": MOVABLE}, reference=X)
    report = gaming_report(model, X, y, moves, budget=[0, 1], positive=1).to_frame()
    assert table["accuracy"].tolist() == report["accuracy"].tolist()
    assert table["movers"].tolist() == report["moved"].tolist()


def test_the_rule_fitted_for_gaming_is_judged_by_its_own_cheapest_moves() -> None:
    frame, y = people(120)
    context = context_of(frame, y, rows="training")
    moves, budgets = moves_of(context), (0.0, 1.0)
    records = strategic_stage(context, moves, budgets).run(context, np.array([0]))
    rule = fitted_rule(context, moves, 1.0, context.folds.train[0])
    rows = frame.iloc[context.folds.test[0]].reset_index(drop=True)
    plan = cheapest_moves(rule, rows, moves, positive=1, budget=1.0)
    assert [record["upper"] for record in records] == plan.upper.tolist()
    assert "strategic" not in [stage.name for stage in GamingSection().stages(context)]
    asked = {"effort": {"budgets": [1], "fit": True}}
    context = context_of(frame, y, rows="training", settings=asked)
    assert "strategic" in [stage.name for stage in GamingSection().stages(context)]
    assert [record["row"] for record in records] == context.folds.test[0].tolist()
    assert [type(s).__name__ for _, s in preparation(context).steps] == ["ColumnTransformer"]
    trees = context_of(frame, y, boosted(max_iter=2), rows="training")
    assert type(preparation(trees)).__name__ == "ColumnTransformer"


def test_columns_that_a_linear_rule_cannot_take_are_said() -> None:
    frame, y = people(120)
    context = context_of(frame, y, rows="training")
    wrong = Moves.from_toml({"movable": MOVABLE}, reference=frame.rename(columns={"age": "old"}))
    strange = context_of(frame.rename(columns={"debt": "loan"}), y, rows="training")
    (record,) = strategic_stage(strange, wrong, (0.0, 1.0)).run(strange, np.array([0]))
    assert record["row"] == -1
    assert "debt" in record["why"]
    parts = {"moves": GamingSection().stages(context)[0].run(context, np.arange(120))}
    tables = {name: pd.DataFrame(parts.get(name, [])) for name in gaming.STAGES}
    tables["strategic"] = pd.DataFrame([record])
    rules = rules_from(context, tables, (0.0, 1.0))
    assert STRATEGIC not in rules.decisions
    assert rules.no_fit == record["why"]


@pytest.mark.slow
def test_the_rule_fitted_for_gaming_stands_beside_the_others() -> None:
    frame, y = people(120)
    settings = {"effort": {"budgets": [0.5, 1, 2], "fit": True}}
    context = context_of(frame, y, rows="training", settings=settings)
    result = run(context, HonestSection(), GamingSection()).results["gaming"]
    lines = result.to_frame().set_index(["rule", "budget"])
    action = next(a for a in result.actions if a.name == STRATEGIC)
    assert (action.after, action.instead_of) == (HARDENED, ("honest cut", HARDENED))
    gap = lines.loc[(HARDENED, 1.0), "money"] - lines.loc[(STRATEGIC, 1.0), "money"]
    assert action.scenarios[1].gain.value == pytest.approx(gap, abs=1e-9)


def test_a_link_keeps_columns_together() -> None:
    frame, y = people(150)
    linked = frame.assign(total=frame["debt"] + frame["income"])
    movable = {"debt": MOVABLE["debt"]}
    link = {"derived": "total", "of": ["debt", "income"], "by": "debt + income"}
    settings = {"movable": movable, "moves": {"links": [link]}, "effort": {"budgets": [1, 2]}}
    model = LogisticRegression().fit(linked.drop(columns="home"), y)
    context = context_of(
        linked.drop(columns="home"), y, LogisticRegression(), fitted=model, rows="heldout",
        settings=settings,
    )  # fmt: skip
    assert moves_of(context).touched == ("debt", "total")
    records = GamingSection().stages(context)[0].run(context, np.arange(150))
    moved = [r for r in records if "change:debt" in r]
    assert len(moved) > 5
    for record in moved:  # whoever changes the debt changes the total by as much
        assert record["change:total"] == pytest.approx(record["change:debt"])


def test_a_missing_cell_can_be_filled_at_its_price() -> None:
    frame, y = numbers(160)
    holes = frame.assign(debt=frame["debt"].where(np.arange(160) % 4 > 0))
    fill = {"debt": MOVABLE["debt"] | {"missing": 0.75}}
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=4).fit(holes, y)
    settings = {"movable": fill, "effort": {"budgets": [1]}}
    context = context_of(holes, y, model, fitted=model, rows="heldout", settings=settings)
    empty = np.flatnonzero(holes["debt"].isna() & ~context.accepted)
    items = np.flatnonzero(np.isin(context.order, empty))
    records = GamingSection().stages(context)[0].run(context, items)
    filled = [r for r in records if r["upper"] <= 1.0]
    assert filled
    assert {r["upper"] for r in filled} == {0.75}
    low = holes.iloc[[r["row"] for r in filled]].assign(debt=0.0)
    assert (model.predict(low) == 1).all()
    kept = context_of(
        holes, y, model, fitted=model, rows="heldout",
        settings={"movable": MOVABLE, "effort": {"budgets": [1]}},
    )  # fmt: skip
    stay = GamingSection().stages(kept)[0].run(kept, items)
    assert all(np.isinf(record["upper"]) for record in stay)  # nobody moves what is not there
