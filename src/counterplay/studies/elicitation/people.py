"""People who err: false certificates and questions of the three stops, by how people slip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.elicitation import AtMost, NoisyUser, ReliableElicitor, answered_by
from counterplay.studies.elicitation.triangle import region
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

TARGET, ALPHA = 0.05, 0.05
FLIPS = (0.0, 0.05, 0.1, 0.2)
KINDS: dict[str, dict[str, Any]] = {
    "logit .01": {"bradley_terry_temperature": 0.01},
    "logit .02": {"bradley_terry_temperature": 0.02},
    "lazy .2": {"position_bias": 0.2},
    "tired .1": {"lapse": 0.1, "fatigue": 0.004},
    "coin": {"flip_prob": 0.5},
}


def _grid(scale: Scale) -> Sequence[Params]:
    quick = scale == "quick"
    people, others = (2, 1) if quick else (100, 60)
    size: Params = {"k": 3, "items": 60} if quick else {"k": 4, "items": 300}
    cells: list[Params] = [
        {**size, "kind": f"flip {flip:g}", "stop": stop, "show": 2, "running": False, "person": i}
        for stop in ("reliable", "credible", "exact")
        for flip in FLIPS
        for i in range(people if stop == "reliable" else others)
    ]
    cells += [
        {**size, "kind": kind, "stop": "reliable", "show": 2, "running": False, "person": i}
        for kind in KINDS
        for i in range(others)
    ]
    cells += [
        {**size, "kind": f"flip {f:g}", "stop": "reliable", "show": m, "running": r, "person": i}
        for f in (0.0, 0.1)
        for m, r in ((3, False), (2, True))
        for i in range(others)
    ]
    return cells


def _cell(params: Params, seed: int) -> Record:
    person, k = int(params["person"] or 0), int(params["k"] or 0)
    kind = str(params["kind"])
    rng = np.random.default_rng([26, person])
    values, w = rng.random((int(params["items"] or 0), k)), rng.dirichlet(np.ones(k))
    noise = KINDS.get(kind) or {"flip_prob": float(kind.split()[1])}
    user = NoisyUser(w / np.linalg.norm(w), 0.0, random_state=seed, **noise)
    session = ReliableElicitor(
        values, target_regret=TARGET, confidence=1 - ALPHA, check_every=0,
        errors=AtMost(0.1, running=bool(params["running"])),
        stop=str(params["stop"]),  # type: ignore[arg-type]  # one of the three
        show=int(params["show"] or 2), random_state=person,
    )  # fmt: skip
    result = answered_by(session, user)
    worth = values @ w
    regret = 1 - float(worth[result.item]) / float(worth.max())
    bound = result.if_every_answer_is_right if params["stop"] == "exact" else TARGET
    reached = bool(session._state.view.certified) or params["stop"] != "reliable"
    return {
        "questions": result.n_queries,
        "regret": regret,
        "certified": reached,
        "false": bool(reached and regret > (TARGET if bound is None else max(bound, 1e-12)) + 1e-9),
    }


def _main(frame: pd.DataFrame) -> pd.DataFrame:
    plain = frame[(frame["show"] == 2) & ~frame.running.astype(bool)]
    return plain[plain.kind.str.startswith("flip")].assign(
        flip=lambda f: f.kind.str.split().str[1].astype(float)
    )


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found, verdicts = _main(frame), []
    reliable = found[found.stop == "reliable"]
    for flip in FLIPS:
        part = reliable[reliable.flip == flip]
        limit = ALPHA if flip <= 0.1 else 0.08
        what = f"{int(part.false.sum())} of {len(part)} false; share"
        told = f"False certificates at {100 * flip:g} % flips under AtMost(0.1)"
        verdicts.append(at_most("26.05", told, float(part.false.mean()), limit, what=what))
    return verdicts


def _false(frame: pd.DataFrame) -> Figure:
    """False certificates (left) and questions with their 10 to 90 % band (right) against the share
    of flipped answers, for the three stops. The dashed line is the stated error probability."""
    found = _main(frame)
    figure, (left, right) = panels(2, width=4.0, height=3.4)
    for i, stop in enumerate(("reliable", "credible", "exact")):
        groups = found[found.stop == stop].groupby("flip")
        left.plot(groups.false.mean(), "o-", color=PALETTE[i], label=stop)
        questions = groups.questions
        right.plot(questions.median(), "o-", color=PALETTE[i], label=stop)
        low, high = questions.quantile(0.1), questions.quantile(0.9)
        right.fill_between(low.index, low, high, color=PALETTE[i], alpha=0.15)
    left.axhline(ALPHA, label="stated", **THEORY)
    left.set_ylabel("share of false certificates")
    left.set_ylim(bottom=0.0)
    right.set_ylabel("questions (median, 10 to 90 %)")
    for ax in (left, right):
        ax.set_xlabel("share of flipped answers")
        ax.legend(fontsize=8)
    return figure


PEOPLE = Study(
    name="people",
    title="People who err",
    question=(
        "People flip answers, tick the first option, tire or toss coins. How often is a "
        "certificate false, and how many questions does it cost that it is not?"
    ),
    claims=("26.05",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"certificates": _false, "region": region},
)
