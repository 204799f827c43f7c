"""People who err: false certificates and questions of the three stops, by how people slip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.elicitation import AtMost, NoisyUser, ReliableElicitor, answered_by
from counterplay.studies.elicitation.triangle import region
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

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

    def cells(
        kinds: Sequence[str], n: int, stop: str = "reliable", show: int = 2, running: bool = False,
        bound: float = 0.1,
    ) -> list[Params]:  # fmt: skip
        how: Params = {"stop": stop, "show": show, "running": running, "bound": bound}
        return [{**size, "kind": kind, **how, "person": i} for kind in kinds for i in range(n)]

    flips = [f"flip {flip:g}" for flip in FLIPS]
    grid = cells(flips, people) + cells(flips, others, "credible") + cells(flips, others, "exact")
    grid += cells(list(KINDS), others) + cells([flips[0], flips[2]], others, show=3)
    grid += cells(flips, people, running=True) + cells(["coin"], others, running=True)
    return grid + cells([flips[3]], 1 if quick else 40, running=True, bound=0.2)


def _cell(params: Params, seed: int) -> Record:
    """One questionnaire; a person has the same taste, items and luck in all of her cells."""
    person, k = int(params["person"] or 0), int(params["k"] or 0)
    kind, bound = str(params["kind"]), float(params["bound"] or 0.1)
    rng = np.random.default_rng([26, person])
    values, w = rng.random((int(params["items"] or 0), k)), rng.dirichlet(np.ones(k))
    noise = KINDS.get(kind) or {"flip_prob": float(kind.split()[1])}
    luck = np.random.default_rng([27, person])
    user = NoisyUser(w / np.linalg.norm(w), 0.0, random_state=luck, **noise)
    session = ReliableElicitor(
        values, target_regret=TARGET, confidence=1 - ALPHA, check_every=0,
        errors=AtMost(bound, running=bool(params["running"])),
        stop=str(params["stop"]),  # type: ignore[arg-type]  # one of the three
        show=int(params["show"] or 2), max_questions=60 if bound <= 0.1 else 80,
        random_state=person,
    )  # fmt: skip
    result = answered_by(session, user)
    worth = values @ w
    regret = 1 - float(worth[result.item]) / float(worth.max())
    stated = result.if_every_answer_is_right if params["stop"] == "exact" else TARGET
    reached = bool(session._state.view.certified) or params["stop"] != "reliable"
    limit = TARGET if stated is None else max(stated, 1e-12)
    return {
        "questions": result.n_queries,
        "regret": regret,
        "certified": reached,
        "false": bool(reached and regret > limit + 1e-9),
    }


def _main(frame: pd.DataFrame, *, running: bool = False) -> pd.DataFrame:
    """Pairs under AtMost(0.1) for people who flip answers."""
    plain = frame[(frame["show"] == 2) & (frame.bound == 0.1)]
    plain = plain[(plain.running.astype(bool) == running) & plain.kind.str.startswith("flip")]
    return plain.assign(flip=plain.kind.str.split().str[1].astype(float))


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    verdicts = []
    for running, rule in ((False, "last sums"), (True, "largest sums")):
        found = _main(frame, running=running)
        for flip in FLIPS:
            part = found[(found.stop == "reliable") & (found.flip == flip)]
            limit = ALPHA if flip <= 0.1 else 0.08
            what = f"{int(part.false.sum())} of {len(part)} false; share"
            told = f"False certificates at {100 * flip:g} % flips under AtMost(0.1), {rule}"
            verdicts.append(at_most("26.05", told, float(part.false.mean()), limit, what=what))
    if len(part) >= 100:
        verdicts += _questions(frame, found)
    return verdicts


def _questions(frame: pd.DataFrame, running: pd.DataFrame) -> list[Verdict]:
    """Medians and shares of certified people with the largest sums, as they were set in advance."""
    found = []
    for flip, most in zip(FLIPS, (16, 19, 21, 27)):
        part = running[running.flip == flip]
        told = f"Median questions at {100 * flip:g} % flips, largest sums"
        found.append(at_most("26.06", told, float(part.questions.median()), most))
        told = f"Certified within 60 questions at {100 * flip:g} % flips, largest sums"
        found.append(at_least("26.05", told, float(part.certified.mean()), 0.95))
    for kind, most in (("flip 0", 14), ("flip 0.1", 18)):
        part = frame[(frame["show"] == 3) & (frame.kind == kind)]
        told = f"Median questions, best of three, {kind}"
        found.append(at_most("26.06", told, float(part.questions.median()), most))
    part = frame[frame.bound == 0.2]
    told = "Median questions at 20 % flips under AtMost(0.2), at most 80"
    found.append(at_most("26.05", told, float(part.questions.median()), 45))
    told = "False certificates at 20 % flips under AtMost(0.2)"
    found.append(at_most("26.05", told, float(part.false.mean()), ALPHA))
    plain = frame[(frame["show"] == 2) & ~frame.running.astype(bool) & (frame.stop == "reliable")]
    for kind, most in zip(KINDS, (20, 20, 22, 20)):
        part = plain[plain.kind == kind]
        told = f"{kind}: median questions"
        found.append(at_most("26.07", told, float(part.questions.median()), most))
        told = f"{kind}: false certificates of {len(part)}"
        found.append(at_most("26.07", told, float(part.false.sum()), 3))
    return found


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
    claims=("26.05", "26.06", "26.07"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"certificates": _false, "region": region},
)
