"""Section gaming: exact decisions, honest credit, cuts that are chosen on other rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from auditing.bench_tables import COSTS, MOVES, boosted, context_of, linear, people, real_data, run
from auditing.bench_tables import table as real_table
from auditing.references import beam, brute_force, knapsack, menus
from counterplay.auditing.actions import ranked
from counterplay.auditing.intervals import accuracy_of
from counterplay.auditing.sections import GamingSection, HonestSection
from counterplay.auditing.sections.gaming import held_fixed, moves_of
from counterplay.auditing.sections.gaming_actions import hardened_title
from counterplay.auditing.sections.gaming_people import group_cells
from counterplay.auditing.sections.gaming_rules import AS_IS, FIXED, HARDENED, HONEST
from counterplay.strategic import Moves, cheapest_moves, gaming_report
from counterplay.studies.auditing.people import CODES, MOVABLE, WANTED, model_of, split
from counterplay.studies.auditing.people import table as study_table

BUDGET = 2.0


@pytest.fixture(scope="module")
def cross_fitted():
    """One cross-fitted run that several tests look at."""
    frame, y = people(150)
    context = context_of(frame, y, rows="training")
    return context, run(context, HonestSection(), GamingSection()).results


def additive(seed: int):
    """A random linear model over four columns with at most five options each."""
    rng = np.random.default_rng(seed)
    names = [f"c{j}" for j in range(4)]
    frame = pd.DataFrame(rng.integers(0, 6, (8, 4)).astype(float), columns=names)
    frame.iloc[0], frame.iloc[1] = 0.0, 5.0
    y = (frame.sum(axis=1) + rng.normal(0, 2, 8) > 10).to_numpy().astype(int)
    y[:4] = 0, 1, 0, 1
    movable = {
        name: {
            "direction": "up", "step": 1.0, "per": "step", "low": 0.0,
            "cost": round(float(rng.uniform(0.2, 1.0)), 3), "high": 5.0,
        }
        for name in names
    }  # fmt: skip
    return frame, y, LogisticRegression(C=0.3).fit(frame, y), movable


def options_of(row, weights, movable):
    """Price and gain of every option of one person, from the settings alone."""
    found = []
    for (_, setting), value, weight in zip(movable.items(), row, weights):
        steps = range(min(4, int(setting["high"] - value)) + 1)
        found.append([(k * setting["cost"], k * weight) for k in steps])
    return found


@pytest.mark.claim("27.03")
def test_decisions_equal_brute_force_and_the_knapsack_brackets_them() -> None:
    for seed in range(200):
        frame, y, model, movable = additive(seed)
        frame = frame.where(frame >= 1, 1.0)  # at most four steps are left
        budget = float(np.random.default_rng(seed).uniform(0.5, BUDGET))
        settings = {"movable": movable, "effort": {"budgets": [budget]}}
        context = context_of(frame, y, fitted=model, rows="heldout", settings=settings)
        records = GamingSection().stages(context)[0].run(context, np.arange(len(frame)))
        scores = model.decision_function(frame)
        for record in records:
            i = record["row"]
            options = options_of(frame.iloc[i], model.coef_[0], movable)
            best = brute_force(options, budget)
            if abs(scores[i] + best) > 1e-9:
                assert (record["upper"] <= budget) == (scores[i] + best > 0)
                assert record["exact"]
            assert knapsack(options, budget, down=True) >= best - 1e-9
            assert knapsack(options, budget, down=False) <= best + 1e-9


@pytest.mark.claim("27.03")
def test_the_numbers_are_those_of_gaming_report_on_the_same_file() -> None:
    frame, y = people(200)
    test, yt = people(200, seed=1)
    model = linear().fit(frame, y)
    context = context_of(test, yt, fitted=model, rows="heldout")
    found = run(context, HonestSection(), GamingSection()).results["gaming"]
    mine = found.to_frame().query("rule == @AS_IS").set_index("budget")
    moves = Moves.from_toml({"movable": MOVES}, reference=test)
    value = [[0, -5], [-1, 0]]
    report = gaming_report(
        model, test, yt, moves, budget=[0, 0.5, 1, 2], positive=1, value=value
    ).to_frame().set_index("budget")  # fmt: skip
    for ours, theirs in (
        ("accuracy", "accuracy"), ("false_accepts", "false_positives"),
        ("false_rejects", "false_negatives"), ("movers", "moved"),
        ("unqualified_movers", "moved_unqualified"),
    ):  # fmt: skip
        assert mine[ours].tolist() == report[theirs].tolist()
    assert mine["money"].to_numpy() == pytest.approx(-1000 * report["value"].to_numpy())
    assert (mine["basis"] == "exact").all()
    assert (mine["false_accepts"].diff().dropna() >= 0).all()


def movers(cells, budget, sign=1):
    """Which people the beam brings to acceptance."""
    found = [
        sign * base + beam([[(p, sign * g) for p, g in o] for o in options], budget) > 0
        for base, options in cells
    ]
    return np.array(found, dtype=bool)


@pytest.mark.claim("27.04")
def test_a_beam_finds_nearly_all_movers_and_never_more() -> None:
    frame, y = people(120)
    model = linear().fit(frame, y)
    moves = Moves.from_toml({"movable": MOVES}, reference=frame)
    plan = cheapest_moves(model, frame, moves, positive=1, budget=BUDGET)
    rows = np.flatnonzero(plan.upper > 0)
    cells = menus(model, frame, rows, MOVES, BUDGET)
    for budget in (0.25, 0.5, 1.0, 2.0):
        exact = plan.upper[rows] <= budget * (1 + 1e-9)
        reached = movers(cells, budget)
        assert (reached <= exact).all()
        assert reached.sum() >= 0.99 * exact.sum()


@pytest.mark.claim("27.04")
@real_data
@pytest.mark.parametrize("name", ["german_credit", "heloc", "taiwan"])
def test_a_beam_finds_nearly_all_movers_of_real_tables(name: str) -> None:
    frame, labels = study_table(name)
    train, test = split(name, most=11_000)
    model = model_of("LR").fit(frame.iloc[train], labels[train])
    given, rows = frame.iloc[train], frame.iloc[test].reset_index(drop=True)
    codes = CODES.get(name, {})
    moves = Moves.from_toml({"movable": MOVABLE[name]}, reference=given, codes=codes or None)
    plan = cheapest_moves(model, rows, moves, positive=WANTED[name], budget=BUDGET)
    rejected = np.flatnonzero(plan.upper > 0)
    cells = menus(model, rows, rejected, MOVABLE[name], BUDGET, codes.get("*", ()), given)
    sign = 1 if WANTED[name] == model.classes_[1] else -1
    for budget in (0.25, 0.5, 1.0, 2.0):
        exact = plan.upper[rejected] <= budget * (1 + 1e-9)
        reached = movers(cells, budget, sign)
        assert (reached <= exact).all()
        assert reached.sum() >= 0.99 * exact.sum()


@pytest.mark.claim("27.09")
def test_gains_are_credited_in_order_and_add_up(cross_fitted) -> None:
    result = cross_fitted[1]["gaming"]
    table = result.to_frame().set_index(["rule", "budget"])["money"]
    actions = {action.name: action for action in result.actions}
    cut, hard = actions[HONEST], actions[HARDENED]
    assert (cut.credit, hard.credit, hard.after) == (1, 2, HONEST)
    for k, budget in enumerate((0.0, 1.0)):
        total = table[AS_IS, budget] - table[HARDENED, budget]
        gains = [action.scenarios[k].gain.value for action in (cut, hard)]
        assert sum(gains) == pytest.approx(total, abs=1e-9)
        assert gains[1] == pytest.approx(table[HONEST, budget] - table[HARDENED, budget], abs=1e-9)
    assert hard.scenarios[1].gain.low <= hard.scenarios[1].gain.value


def test_every_title_stands_alone_because_actions_are_sorted_by_gain(cross_fitted) -> None:
    results = cross_fitted[1]
    actions = {action.name: action for action in ranked(results["gaming"].actions)}
    assert {HONEST, HARDENED} <= set(actions)
    assert not [a.title for a in actions.values() if a.title.startswith("Then")]
    assert actions[HARDENED].title.startswith("Put the cut at ")
    first = actions[HONEST].title.removeprefix("Move the cut to ").split(" (")[0]
    assert f", not {first}, chosen for budgets 0 to 2" in actions[HARDENED].title


def test_the_hardened_cut_is_set_against_another_cut_only() -> None:
    assert hardened_title("score 3", "score 3", 1.5) == (
        "Put the cut at score 3, chosen for budgets 0 to 1.5"
    )
    assert hardened_title("0.94 (score 2.7)", "any score (accept all)", 2.0) == (
        "Put the cut at 0.94 (score 2.7), chosen for budgets 0 to 2"
    )


@pytest.mark.claim("27.09")
@real_data
def test_german_credit_says_the_cut_first() -> None:
    frame = real_table("german_credit")
    movable = {
        "duration_months": {"direction": "down", "step": 3, "cost": 0.25, "per": "step", "low": 4},
        "status_checking": {"switch": {"A11": {"A12": 0.5, "A13": 1.5}, "A12": {"A13": 1.0}}},
    }
    context = context_of(
        frame.drop(columns="class"), frame["class"], rows="training",
        settings={"movable": movable, "effort": {"budgets": [1]}},
    )  # fmt: skip
    results = run(context, HonestSection(), GamingSection()).results
    names = [finding.name for finding in results["honest"].findings]
    assert "as_is_worse_than_plain" in names
    assert results["honest"].best_plain_money.value == 700
    cut = results["gaming"].actions[0]
    assert cut.name == HONEST
    assert cut.advised
    assert 250 < cut.scenarios[0].gain.value < 450  # 368 in the first measurement
    assert results["gaming"].variants[0].name == "cut"


@pytest.mark.claim("27.10")
def test_where_nothing_beats_a_plain_rule_it_is_said_and_no_file_is_offered() -> None:
    frame, y = people(150)
    noise = np.random.default_rng(5).integers(0, 2, 150)
    context = context_of(frame, noise, fitted=linear().fit(frame, y), rows="heldout")
    result = run(context, HonestSection(), GamingSection()).results["gaming"]
    finding = next(f for f in result.findings if f.name == "no_rule_beats_plain")
    assert "No rule here beats 'reject all' by more than the interval" in finding.sentence
    assert result.variants == ()
    assert all(
        "no file is offered" in a.how for a in result.actions if a.name in (HONEST, HARDENED)
    )


def test_variants_decide_as_the_page_says() -> None:
    frame, y = people(300)
    model = linear().fit(*people(300, seed=2))
    context = context_of(frame, y, fitted=model, rows="heldout")
    result = run(context, HonestSection(), GamingSection()).results["gaming"]
    cut = next(v for v in result.variants if v.name == "cut")
    scores = model.decision_function(frame)
    assert (cut.accepted == (scores >= result.cuts[HONEST])).all()
    assert ((cut.model.predict(frame) == 1) == cut.accepted).all()
    assert list(cut.model.feature_names_in_) == list(frame.columns)


def test_the_model_without_movable_columns_cannot_see_them(cross_fitted) -> None:
    context, results = cross_fitted
    held = held_fixed(context).frame()
    for name in moves_of(context).touched:
        assert held[name].nunique() == 1
    assert held["income"].equals(context.frame["income"])
    result = results["gaming"].to_frame()
    assert set(result["rule"]) == {AS_IS, HONEST, HARDENED, FIXED}
    fixed = result.query("rule == @FIXED")
    assert fixed["money"].nunique() == 1  # nobody can move


def test_a_sample_of_moves_leaves_the_numbers_at_rest_on_all_rows() -> None:
    frame, y = people(300)
    model = linear().fit(*people(300, seed=2))
    context = context_of(frame, y, fitted=model, rows="heldout")
    plan = {"honest.rows": 300, "gaming.moves": 220, "gaming.shown": 220, "gaming.calm": 300}
    results = run(context, HonestSection(), GamingSection(), plan=plan).results
    gaming = results["gaming"]
    assert gaming.quantities["gamed_money at budget=0"] == results["honest"].money
    assert gaming.quantities["gamed_money"].n == 220
    assert "Effort 0 rests on 300 rows; moves were searched for 220" in gaming.tables[0].note
    calm, gamed = (
        gaming.quantities[f"gamed_money at budget={b}, rule=honest cut"].value for b in (0, 1)
    )
    cut = gaming.actions[0]
    as_is = gaming.quantities["gamed_money at budget=0"].value
    assert cut.scenarios[0].gain.value == pytest.approx(as_is - calm)  # as the sentences say
    assert cut.scenarios[1].gain.value == pytest.approx(
        gaming.quantities["gamed_money"].value - gamed
    )
    own = gaming.to_frame().set_index(["rule", "budget"])["money"]
    added = own[HONEST, 1.0] - own[HONEST, 0.0]  # on the sample
    assert gamed == pytest.approx(calm + added)
    values = gaming.row_values["gamed_money"]
    assert values.scale * values.values.mean() == pytest.approx(
        gaming.quantities["gamed_money"].value
    )
    frame = gaming.to_frame().query("rule == @AS_IS")
    assert (frame["false_accepts"].diff().dropna() >= 0).all()  # the frame is on one sample
    whole = gaming.quantities["gamed_accuracy at budget=0, rule=honest cut"]
    assert whole.n == 300


def test_trees_count_bracketed_rows_both_ways() -> None:
    frame, y = people(100)
    context = context_of(frame, y, boosted(max_iter=10, max_leaf_nodes=5), rows="heldout")
    result = run(context, HonestSection(), GamingSection()).results["gaming"]
    for key, quantity in result.quantities.items():
        if key.startswith("gamed_"):
            assert quantity.low <= quantity.value <= quantity.high
            assert quantity.basis in ("measured", "found")


@pytest.mark.claim("27.26")
def test_intervals_cover_the_value_of_the_whole_table() -> None:
    frame, y = people(6000, seed=9)
    model = linear().fit(*people(500, seed=3))
    context = context_of(frame, y, fitted=model, rows="heldout")
    moves = Moves.from_toml({"movable": MOVES}, reference=frame)
    plan = cheapest_moves(model, frame, moves, positive=1, budget=1.0)
    sure = plan.upper <= 1.0
    truth = float((sure == (y == 1)).mean())
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        rows = rng.permutation(len(y))[:500]
        found = accuracy_of(context.decided(sure[rows], rows=rows))
        hits += found.low <= truth <= found.high
    assert hits >= 185


@pytest.mark.claim("27.28")
@pytest.mark.parametrize(("rows", "rated"), [(29, False), (30, True)])
def test_small_groups_have_counts_only(rows: int, rated: bool) -> None:
    own = np.arange(60) < rows
    y, moved = np.arange(60) % 2 == 0, np.arange(60) % 4 == 0
    size, able, must, refused, price = group_cells(own, y, moved, ~moved, np.ones(60))
    assert size.value == rows
    assert (must.unit == "share") is rated
    assert (must.high > must.low) is rated
    assert (price is not None) is rated
    assert must.value == (moved & y & own).sum() / (able.value if rated else 1)
    assert refused.value == (~moved & y & own).sum() / (able.value if rated else 1)


@pytest.mark.claim("27.07")
def test_flipped_coding_gives_the_same_numbers(cross_fitted) -> None:
    context, one = cross_fitted
    bad = 1 - context.labels  # as many credit files code it: 1 is the default
    other = context_of(context.frame, bad, positive=0, rows="training")
    two = run(other, HonestSection(), GamingSection()).results
    a, b = (results["gaming"].to_frame() for results in (one, two))
    for name in a.columns:
        if a[name].dtype.kind == "f":
            assert a[name].to_numpy() == pytest.approx(b[name].to_numpy(), abs=1e-9), name
        else:
            assert a[name].tolist() == b[name].tolist(), name


def test_costs_may_be_columns() -> None:
    frame, y = people(200)
    whole = frame.assign(loss=np.where(np.arange(200) % 2, 9.0, 1.0))
    settings = {"costs": {"false_accept": "loss", "false_reject": 1}}
    context = context_of(frame, y, rows="training", settings=settings, whole=whole)
    money = run(context, HonestSection()).results["honest"].money
    clone_ = context.model_of(0)
    assert money.unit == "cost units per 1,000 decisions"
    assert context.cost_accept.tolist() == whole["loss"].tolist()
    assert clone_ is context.model_of(0)


def test_what_people_can_spend_comes_from_before_and_after(tmp_path) -> None:
    frame, y = people(400)
    model = linear().fit(frame, y)
    moves = Moves.from_toml({"movable": MOVES}, reference=frame)
    later, _ = people(400, seed=8)
    plan = cheapest_moves(model, later, moves, positive=1, budget=1.0)
    moved = plan.destination  # everybody can spend 1; who has no such move stays
    frame.to_csv(tmp_path / "before.csv", index=False)
    moved.to_csv(tmp_path / "after.csv", index=False)
    effort = {"budgets": [1]} | {k: str(tmp_path / f"{k}.csv") for k in ("before", "after")}
    context = context_of(frame, y, fitted=model, rows="heldout", settings={"effort": effort})
    wanted = {"honest.rows": 400, "gaming.moves": 400, "gaming.ability": 1}
    result = run(context, HonestSection(), GamingSection(), plan=wanted).results["gaming"]
    able = next(f for f in result.findings if f.name == "able")
    assert able.quantity.high > 0.8
    assert able.quantity.low <= able.quantity.value <= able.quantity.high


def test_what_is_missing_is_said() -> None:
    frame, y = people(120)
    context = context_of(frame, y, settings={"movable": {}, "effort": {}})
    keys = [missing.key for missing in GamingSection().needs(context)]
    assert keys == ["[movable.COLUMN]", "[effort] budgets"]
    assert COSTS["false_accept"] == 5
