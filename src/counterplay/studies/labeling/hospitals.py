"""Four hospitals test together: a real pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterplay.core.figures import PALETTE, panels
from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import generator
from counterplay.labeling import B2IR, GBS, LabelingSession, PoolProblem, incentive_report
from counterplay.studies.labeling.gains import bars, workload
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def _grid(scale: Scale) -> list[Params]:
    sizes = [60] if scale == "quick" else [60, 120]
    return [{"m": m, "hospitals": 4} for m in sizes]


def _hospital_pool(m: int, k: int, seed: int) -> tuple[PoolProblem, NDArray[np.uint8], float]:
    """Breast cancer, two features; hospitals differ in the size of the tumours they see."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = list(data.feature_names)
    columns = [names.index("worst radius"), names.index("worst texture")]
    rng = generator(seed)
    rows = rng.choice(len(data.data), size=m, replace=False)
    X, y = data.data[rows][:, columns], data.target[rows].astype(np.uint8)
    order = np.argsort(X[:, 0] + rng.normal(scale=X[:, 0].std() / 2, size=m))
    owners = [np.sort(part) for part in np.array_split(order, k)]
    problem = PoolProblem.from_class(FiniteClass.halfspaces_2d(X), owners)
    errors = (y != problem.H).mean(axis=1)
    best = int(errors.argmin())
    return problem, problem.H[best], float(errors[best])


def _cell(params: Params, seed: int) -> Record:
    m, k = int(params["m"] or 0), int(params["hospitals"] or 0)
    problem, truth, error = _hospital_pool(m, k, seed)
    protocol = B2IR(GBS())
    report = incentive_report(protocol, GBS(), problem)
    session = LabelingSession(problem, protocol)
    while (query := session.ask()) is not None:
        session.tell(int(truth[query.point]))
    transcript = session.transcript()
    known = [1.0 - float(e) / problem.entropy() for e in transcript["entropy_after"]]
    settled = _settled_labels(problem, truth, [int(x) for x in transcript["point"]])
    record = {
        "N": problem.N,
        "in_class_error": error,
        "queries": len(transcript),
        "agents_asked": ",".join(str(a) for a in transcript["agent"]),
        "bits_known": ",".join(f"{v:.6f}" for v in known),
        **workload(problem, report),
    }
    for i in range(k):
        record[f"settled_{i}"] = ",".join(f"{v:.4f}" for v in settled[:, i])
    return record


def _settled_labels(
    problem: PoolProblem, truth: NDArray[np.uint8], asked: list[int]
) -> NDArray[np.float64]:
    """Share of each party's labels that are implied before the first and after every question."""
    space = problem.version_space()
    shares = np.zeros((len(asked) + 1, problem.k))
    for t in range(len(asked) + 1):
        rows = problem.H[space.alive]
        implied = (rows == rows[0]).all(axis=0)
        shares[t] = [implied[pool].mean() for pool in problem.agents]
        if t < len(asked):
            space.observe_mask(problem.H[:, asked[t]] == truth[asked[t]])
    return shares


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    row = frame.iloc[-1]
    return [
        equals("06.11", "On real patients no hospital does more tests than alone.",
               int(frame["is_ir"].sum()), len(frame),
               what=f"{row['total']:.1f} tests together, {row['sum_alone']:.1f} alone; pools"),
        at_least("06.10", "The total is close to the entropy floor.",
                 float((frame["total"] / frame["entropy"]).min()), 1, what="share of the floor"),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: expected tests of four hospitals alone and together. Middle and right: one run in
    which the best halfspace is the truth; each dot is a test, its colour the hospital that made it.
    """
    figure, (left, middle, right) = panels(3, width=4.4)
    row = frame.iloc[-1]
    k = int(row["hospitals"])
    bars(left, row, "")
    left.set(xlabel="hospital", ylabel="expected tests",
             title=f"{row['m']} patients, {row['N']} halfspaces")  # fmt: skip
    asked = [int(a) for a in str(row["agents_asked"]).split(",")]
    known = [0.0, *(100 * float(v) for v in str(row["bits_known"]).split(","))]
    steps = np.arange(len(known))
    middle.step(steps, known, where="post", color="#444444", zorder=1)
    for i in range(k):
        at = [t + 1 for t, agent in enumerate(asked) if agent == i]
        middle.plot(at, [known[t] for t in at], "o", color=PALETTE[i], label=f"hospital {i + 1}")
        settled = [100 * float(v) for v in str(row[f"settled_{i}"]).split(",")]
        right.step(steps, settled, where="post", color=PALETTE[i])
        right.plot(at, [settled[t] for t in at], "o", color=PALETTE[i])
    middle.set(xlabel="tests made", ylabel="uncertainty resolved (%)",
               title=f"One run, best halfspace ({row['in_class_error']:.1%} error)")  # fmt: skip
    middle.legend()
    right.set(xlabel="tests made", ylabel="labels known of each hospital (%)",
              title="Everybody knows all labels at the end")  # fmt: skip
    return figure


STUDY = Study(
    name="hospitals",
    title="Four hospitals test together",
    question=(
        "Breast cancer data, two features, four hospitals with differently sized tumours. How many "
        "tests does each make alone and together, and how fast does uncertainty vanish?"
    ),
    claims=("06.10", "06.11"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"hospitals": _figure},
)
