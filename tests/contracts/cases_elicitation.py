"""Contract cases of counterplay.elicitation."""

import math
from typing import Any

import numpy as np
import pandas as pd

from contracts.process_cases import MDP, PROCESS_CASES
from counterplay.elicitation import (
    Answer,
    AtMost,
    CallableOracle,
    Catalogue,
    ChoicePanel,
    LinearPreferenceUser,
    NoisyUser,
    PolytopeElicitor,
    PreferenceElicitor,
    ReliableElicitor,
    Unknown,
    answered_by,
    elicit_many,
)
from counterplay.elicitation.lab import (
    ChoiceAnswer,
    ChoiceQuery,
    ConsistentSet,
    ErrorsTested,
    Option,
    PointSetOracle,
    PolytopeOracle,
    Query,
    SharedBases,
    barycentric_basis,
    basis_policies,
    bet_factor,
    c4_compress,
    equal_weights,
    estimate_precision,
    estimate_ratios,
    logistic_weights,
    nonnegative_preference,
    ratio_matrix,
    refine_ratios,
    solve_preference,
    truncated_preference,
    truncation_delta,
    truncation_dimension,
    undominated,
    zone_ratio,
)

TABLE = np.random.default_rng(0).random((60, 3))
USER = LinearPreferenceUser([1.0, 0.6, 0.3], eps=0.01)
CARS = pd.DataFrame({"km": [300.0, 600.0, 450.0, 500.0], "price": [20e3, 50e3, 30e3, 28e3]})
V = np.array([[1.0, 0.2], [0.3, 0.6]])
PAIR_USER = LinearPreferenceUser([1.0, 0.7], eps=0.1)
SAID = [(np.array([1.0, -1.0]), Answer.FIRST), (np.array([1.0, -1.0]), Answer.SECOND)]


def panel(chosen: str = "taken") -> ChoicePanel:
    rng = np.random.default_rng(0)
    rows = [(i, t, a, x) for i in range(8) for t in range(4) for a, x in enumerate(rng.random(2))]
    frame = pd.DataFrame(rows, columns=["who", "task", "item", "price"])
    frame["taken"] = frame.price == frame.groupby(["who", "task"]).price.transform("min")
    return ChoicePanel(
        frame, person="who", task="task", alternative="item", chosen=chosen, attributes=["price"]
    )


def small() -> ReliableElicitor:
    return ReliableElicitor(TABLE[:20], target_regret=0.2, max_questions=8, random_state=0)


def answer_all(elicitor: ReliableElicitor) -> list[Any]:
    result = answered_by(elicitor, USER)
    return [result.row, result.n_queries, result.regret_certificate, result.credible_regret]


POPULATION = panel().fit_population(random_state=0, iterations=200)


def best_row(w: np.ndarray) -> tuple[int, np.ndarray]:
    row = int((TABLE @ w).argmax())
    return row, TABLE[row]


def ask_all(elicitor: Any) -> list[Any]:
    result = answered_by(elicitor, USER)
    return [result.value, result.n_queries, result.regret_certificate]


def compare(user: LinearPreferenceUser) -> list[str]:
    return [user.compare(TABLE[i], TABLE[i + 1]).value for i in range(20)]


CASES: dict[str, dict[str, Any]] = {
    "Answer": {
        "make": lambda: Answer.FIRST,
        "bad": {"unknown word": lambda: Answer.parse("maybe")},
    },
    "AtMost": {
        "make": lambda: AtMost(0.1, jnd=0.01),
        "bad": {
            "half": lambda: AtMost(0.5),
            "negative": lambda: AtMost(-0.1),
            "falling ladder": lambda: AtMost((0.2, 0.1)),
        },
    },
    "Unknown": {"make": lambda: Unknown()},
    "ChoiceAnswer": {
        "make": lambda: ChoiceAnswer("asked", (0, 1), "choice", (0,), TABLE[:2]),
        "no_example": "kept by ReliableElicitor",
    },
    "ChoiceQuery": {
        "make": lambda: small().ask(),
        "no_example": "returned by ReliableElicitor.ask",
        "bad": {"not shown": lambda: ChoiceQuery((Option(TABLE[0]),) * 2, (0, 1)).parse("blue")},
    },
    "ChoicePanel": {
        "make": panel,
        "run": lambda found: found.padded()[0],
        "bad": {"unknown column": lambda: panel(chosen="nothing")},
    },
    "Population": {"make": lambda: POPULATION, "run": lambda found: found.mean.to_numpy()},
    "PanelScore": {"make": lambda: POPULATION.score(panel(), reveal=2)},
    "ErrorsTested": {"make": lambda: ErrorsTested.of([True, False], 0.1, 0.05, False)},
    "ReliableElicitor": {
        "make": small,
        "run": answer_all,
        "restore": lambda text: ReliableElicitor.from_json(text, TABLE[:20]),
        "bad": {
            "confidence": lambda: ReliableElicitor(TABLE, confidence=1.0),
            "tell before ask": lambda: ReliableElicitor(TABLE).tell("first"),
            "target": lambda: ReliableElicitor(TABLE, target_regret=0.0),
            "foreign state": lambda: ReliableElicitor.from_json("{}", TABLE),
            "no JSON": lambda: ReliableElicitor.from_json("nonsense", TABLE),
            "too many": lambda: ReliableElicitor(np.random.default_rng(0).random((9, 7))),
        },
    },
    "ReliableResult": {"make": lambda: small().result},
    "bet_factor": {
        "args": {"forecast": 0.5, "contradicted": True, "rate": 0.1},
        "bad": {"rate": lambda: bet_factor(0.5, True, 0.7)},
    },
    "CallableOracle": {
        "make": lambda: CallableOracle(best_row, k=3, scale=2.0),
        "run": lambda oracle: oracle.argmax(np.eye(3)),
        "bad": {
            "wrong width": lambda: CallableOracle(best_row, 3, 2.0).argmax([[1.0, 0.0]]),
            "short value": lambda: CallableOracle(lambda w: (0, [1.0]), 3, 1.0).argmax(np.eye(3)),
        },
    },
    "Catalogue": {
        "make": lambda: Catalogue(CARS, benefits=["km"], costs=["price"]),
        "bad": {
            "no column": lambda: Catalogue(CARS),
            "unknown column": lambda: Catalogue(CARS, benefits=["kmm"]),
            "twice": lambda: Catalogue(CARS, benefits=["km"], costs=["km"]),
            "NaN": lambda: Catalogue(CARS.assign(km=math.nan), benefits=["km"]),
            "constant": lambda: Catalogue(CARS.assign(km=1.0), benefits=["km"]),
            "empty": lambda: Catalogue(CARS[:0], benefits=["km"]),
        },
    },
    "ConsistentSet": {
        "make": lambda: ConsistentSet(3),
        "run": lambda s: [
            s.tell([0.5, -0.5, 0.1], "first"),
            s.tell([0, 0.2, -0.3], "same"),
            s.vertices,
        ],
        "bad": {
            "k = 0": lambda: ConsistentSet(0),
            "NaN": lambda: ConsistentSet(2).tell([math.nan, 1.0], "first"),
            "answer": lambda: ConsistentSet(2).tell([1.0, -1.0], "perhaps"),
        },
    },
    "ElicitationResult": {
        "make": lambda: answered_by(PolytopeElicitor(TABLE, random_state=0), USER),
        "bad": {"no row": lambda: answered_by(PreferenceElicitor(MDP), USER).index},
    },
    "LinearPreferenceUser": {
        "make": lambda: LinearPreferenceUser([1.0, 0.6, 0.3], eps=0.01),
        "run": compare,
        "bad": {
            "negative weight": lambda: LinearPreferenceUser([1.0, -0.1], 0.1),
            "zero weights": lambda: LinearPreferenceUser([0.0, 0.0], 0.1),
            "negative eps": lambda: LinearPreferenceUser([1.0, 0.1], -0.1),
            "wrong width": lambda: USER.compare([1.0], [0.0]),
        },
    },
    "NoisyUser": {
        "make": lambda: NoisyUser([1.0, 0.6, 0.3], 0.01, flip_prob=0.2, random_state=0),
        "run": compare,
        "bad": {"flip_prob": lambda: NoisyUser([1.0, 0.5], 0.01, flip_prob=1.5)},
    },
    "Option": {"make": lambda: Option(TABLE[0], item=0, label="a car")},
    "PointSetOracle": {
        "make": lambda: PointSetOracle(TABLE),
        "run": lambda oracle: oracle.argmax(np.eye(3)),
        "bad": {
            "negative": lambda: PointSetOracle([[1.0, -1.0]]),
            "empty": lambda: PointSetOracle(np.zeros((0, 3))),
            "all zero": lambda: PointSetOracle(np.zeros((2, 3))),
            "NaN": lambda: PointSetOracle([[math.nan, 1.0]]),
        },
    },
    "PolytopeElicitor": {
        "make": lambda: PolytopeElicitor(TABLE, random_state=0),
        "run": ask_all,
        "restore": lambda text: PolytopeElicitor.from_json(text, TABLE),
        "bad": {
            "no source": lambda: PolytopeElicitor(None).ask(),
            "tell before ask": lambda: PolytopeElicitor(TABLE).tell("first"),
            "target": lambda: PolytopeElicitor(TABLE, target_regret=0.0).ask(),
            "foreign state": lambda: PolytopeElicitor.from_json("{}", TABLE),
            "no JSON": lambda: PolytopeElicitor.from_json("nonsense", TABLE),
        },
    },
    "PolytopeOracle": {
        "make": lambda: PolytopeOracle([[1.0, 1.0]], [1.0]),
        "run": lambda oracle: oracle.argmax(np.eye(2))[1],
        "bad": {
            "unbounded": lambda: PolytopeOracle([[1.0, -1.0]], [1.0]),
            "zero infeasible": lambda: PolytopeOracle([[1.0, 1.0]], [-1.0]),
        },
    },
    "PreferenceElicitor": {
        "make": lambda: PreferenceElicitor(MDP),
        "run": ask_all,
        "restore": lambda text: PreferenceElicitor.from_json(text, MDP),
        "bad": {
            "no source": lambda: PreferenceElicitor(None).ask(),
            "estimator": lambda: PreferenceElicitor(MDP, estimator="best").ask(),
            "basis": lambda: PreferenceElicitor(MDP, basis="best").ask(),
            "eps = 0 without a cap": lambda: answered_by(
                PreferenceElicitor(MDP), LinearPreferenceUser([1.0, 0.5, 0.2], 0.0)
            ),
            "foreign state": lambda: PreferenceElicitor.from_json("{}", MDP),
            "result too early": lambda: PreferenceElicitor(MDP).result(),
        },
    },
    "PreferenceEstimate": {"make": lambda: answered_by(PreferenceElicitor(MDP), USER).estimate},
    "Query": {"make": lambda: Query(Option(TABLE[0]), Option(TABLE[1]))},
    "SharedBases": {
        "make": lambda: SharedBases(TABLE),
        "run": lambda bases: bases.basis(0).values,
        "bad": {
            "source": lambda: SharedBases("a string"),
            "kind": lambda: SharedBases(TABLE, kind="best"),
            "representation": lambda: SharedBases(TABLE, representation="policy"),
        },
    },
    "answered_by": {
        "args": lambda: {"session": PolytopeElicitor(TABLE, random_state=0), "user": USER}
    },
    "barycentric_basis": {
        "args": lambda: {"oracle": PointSetOracle(TABLE), "V1": TABLE[0]},
        "bad": {
            "C = 1": lambda: barycentric_basis(PointSetOracle(TABLE), TABLE[0], C=1.0),
            "zero": lambda: barycentric_basis(PointSetOracle(TABLE), np.zeros(3)),
        },
    },
    "BaselineResult": {"make": lambda: equal_weights(PointSetOracle(TABLE))},
    "bradley_terry": {
        "args": lambda: {
            "oracle": PointSetOracle(TABLE),
            "user": USER,
            "n_queries": 10,
            "random_state": 0,
        }
    },
    "equal_weights": {"args": lambda: {"oracle": PointSetOracle(TABLE)}},
    "logistic_weights": {
        "args": {"differences": TABLE - 0.5, "labels": np.ones(60), "ridge": 0.1},
        "bad": {
            "lengths": lambda: logistic_weights(TABLE, np.ones(3), 0.1),
        },
    },
    "pareto_scan": {"args": {"values": TABLE, "user": USER}},
    "random_comparisons": {
        "args": lambda: {
            "oracle": PointSetOracle(TABLE),
            "user": USER,
            "n_queries": 10,
            "random_state": 0,
        }
    },
    "basis_policies": {
        "args": lambda: {"oracle": PointSetOracle(TABLE), "V1": TABLE[0]},
        "bad": {
            "wrong width": lambda: basis_policies(PointSetOracle(TABLE), [1.0]),
            "complement": lambda: basis_policies(PointSetOracle(TABLE), TABLE[0], complement="qr"),
        },
    },
    "bounds.adaptive_questions": {"args": {"k": 4, "target_regret": 0.01}},
    "bounds.barycentric_swaps": {"args": {"k": 4, "d": 4, "C": 1.5}},
    "bounds.basis_oracle_calls": {"args": {"k": 5, "d": 3}},
    "bounds.benchmark_questions": {"args": {"k": 5}},
    "bounds.benchmark_share": {"args": {"k": 5}},
    "bounds.certificate": {"args": {"coefficients": [1.0, 1.5], "errors": [0.1, 0.2]}},
    "bounds.fibonacci_factor": {"args": {"d": 8}},
    "bounds.fibonacci_regret": {"args": {"d": 8, "eps": 0.01}},
    "bounds.flow_paths": {"args": {"n_edges": 100, "n_vertices": 20}},
    "bounds.ratio_error": {"args": {"alpha_hat": 1.5, "eps_over_x": 0.01}},
    "bounds.ratio_error_thesis": {"args": {"k": 3, "eps": 0.01, "best_value": 1.0}},
    "bounds.ratio_questions": {"args": {"k": 3, "x_over_eps": 100.0}},
    "bounds.regret_barycentric": {"args": {"k": 4, "d": 3, "eps": 0.01, "C": 1.5}},
    "bounds.regret_thesis_basis": {"args": {"k": 4, "d": 3, "eps": 0.01}},
    "bounds.repetitions": {"args": {"questions": 50, "flip_prob": 0.1, "delta": 0.05}},
    "bounds.sample_size": {"args": {"k": 3, "accuracy": 0.05, "delta": 0.05}},
    "bounds.shared_oracle_calls": {"args": {"k": 4, "d": 4, "users": 100}},
    "bounds.spread_factor": {"args": {"k": 4, "d": 4}},
    "bounds.total_questions": {"args": {"k": 4, "d": 4, "x_over_eps": 100.0}},
    "bounds.trajectory_set_size": {"args": {"k": 4}},
    "bounds.truncated_gap": {
        "args": {
            "k": 2,
            "d_delta": 1,
            "scale": 1.0,
            "norm_w": 1.0,
            "ratio_error": 1e-6,
            "delta": 0.1,
        }
    },
    "bounds.truncation_bias_gap": {"args": {"k": 4, "delta": 0.1, "norm_w": 1.0}},
    "c4_compress": {
        "args": {"M": TABLE, "p": np.full(60, 1 / 60)},
        "bad": {
            "length": lambda: c4_compress(TABLE, [0.5, 0.5]),
            "sum": lambda: c4_compress(TABLE, np.ones(60)),
            "method": lambda: c4_compress(TABLE, np.full(60, 1 / 60), method="fast"),
            "NaN": lambda: c4_compress([[math.nan]], [1.0]),
        },
    },
    "elicit_many": {
        "args": lambda: {"source": TABLE, "users": [USER, USER]},
        "bad": {"source": lambda: elicit_many(None, [USER])},
    },
    "estimate_precision": {
        "args": {"V1": [1.0, 0.2], "user": PAIR_USER},
        "bad": {"rel_tol": lambda: estimate_precision([1.0, 0.2], PAIR_USER, rel_tol=0.0)},
    },
    "estimate_ratios": {
        "args": {"V": V, "user": PAIR_USER},
        "bad": {
            "eps = 0": lambda: estimate_ratios(V, LinearPreferenceUser([1.0, 0.7], 0.0)),
            "C_alpha": lambda: estimate_ratios(V, PAIR_USER, C_alpha=0.5),
        },
    },
    "fewest_to_set_aside": {"args": {"answers": SAID}},
    "find_benchmark": {"args": lambda: {"oracle": PointSetOracle(TABLE), "user": USER}},
    "nonnegative_preference": {
        "args": {"V": V, "alpha_hat": [0.6], "errors": [0.01]},
        "bad": {"NaN": lambda: nonnegative_preference(V, [math.nan], [0.1])},
    },
    "ratio_matrix": {
        "args": {"V": V, "alpha": [0.6]},
        "bad": {"length": lambda: ratio_matrix(V, [0.6, 0.7])},
    },
    "refine_ratios": {
        "args": lambda: {"V": V, "user": PAIR_USER, "estimates": estimate_ratios(V, PAIR_USER)},
        "bad": {
            "no questions": lambda: refine_ratios(
                V, PAIR_USER, estimate_ratios(V, PAIR_USER), extra_queries=0
            )
        },
    },
    "smallest_conflict": {"args": {"answers": SAID}},
    "solve_preference": {
        "args": {"V": V, "alpha_hat": [0.6]},
        "bad": {"length": lambda: solve_preference(V, [0.6, 0.7])},
    },
    "spanner_coefficients": {
        "args": lambda: {
            "oracle": PointSetOracle(TABLE),
            "basis": basis_policies(PointSetOracle(TABLE), TABLE[0]),
        }
    },
    "truncated_preference": {
        "args": {"V": V, "alpha_hat": [0.6], "extents": [1.0, 0.01], "delta": 0.1},
        "bad": {"delta": lambda: truncated_preference(V, [0.6], [1.0, 0.1], -1.0)},
    },
    "truncation_delta": {
        "args": {"rule": "statement", "k": 3, "d": 3, "scale": 1.0, "eps": 0.01},
        "bad": {
            "rule": lambda: truncation_delta("best", k=3, d=3, scale=1.0),
            "missing eps": lambda: truncation_delta("statement", k=3, d=3, scale=1.0),
        },
    },
    "truncation_dimension": {
        "args": {"extents": [1.0, 0.5], "delta": 0.1},
        "bad": {"NaN": lambda: truncation_dimension([math.nan], 0.1)},
    },
    "undominated": {
        "args": {"values": TABLE},
        "bad": {"NaN": lambda: undominated([[math.nan, 1.0]])},
    },
    "zone_ratio": {
        "args": {"low": 0.4, "high": 0.6},
        "bad": {
            "no end": lambda: zone_ratio(None, None, 0.1),
            "no precision": lambda: zone_ratio(None, 0.6),
        },
    },
    **PROCESS_CASES,
}
