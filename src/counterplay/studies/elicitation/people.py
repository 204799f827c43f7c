"""People who err: false certificates and questions of the three stops, by how people slip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.elicitation import AtMost, NoisyUser, ReliableElicitor, Unknown, answered_by
from counterplay.studies.elicitation.triangle import region
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, seen

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
ASSUMED: dict[str, AtMost | Unknown] = {
    "10 %": AtMost(0.1),
    "10 %, largest sums": AtMost(0.1, running=True),
    "20 %, largest sums": AtMost(0.2, running=True),
    "10 %, jnd .03": AtMost(0.1, jnd=0.03),
    "unknown": Unknown(),
}
LAST, LARGEST = tuple(ASSUMED)[:2]
TASTES = 12 * np.array([0.4, 0.3, 0.2, 0.1])
"""Of the people of a population; a wrong prior has them the other way round."""


def _grid(scale: Scale) -> Sequence[Params]:
    quick = scale == "quick"
    usual: dict[str, Any] = {"stop": "reliable", "show": 2, "assumed": LAST, "prior": "none"}
    usual |= {"most": 60, **({"k": 3, "items": 60} if quick else {"k": 4, "items": 300})}

    def cells(kinds: Sequence[str], people: int, few: int = 1, **how: Any) -> list[Params]:
        n = few if quick else people
        return [{**usual, **how, "kind": kind, "person": i} for kind in kinds for i in range(n)]

    flips = [f"flip {flip:g}" for flip in FLIPS]
    some = [flips[0], flips[2]]
    grid = cells(flips, 100, 2) + cells(flips, 100, 2, assumed=LARGEST)
    grid += cells(flips, 60, stop="credible") + cells(flips, 60, stop="exact")
    grid += cells(list(KINDS)[:-1], 60)
    for assumed in (LAST, LARGEST):
        grid += cells(["coin"], 40, assumed=assumed, most=40)
    grid += cells(some, 60, show=3) + cells(some, 30, 0, show=4)
    grid += cells([flips[3]], 40, assumed="20 %, largest sums", most=80)
    grid += cells(["logit .01"], 40, 0, assumed="10 %, jnd .03")
    for prior in ("flat", "right", "wrong"):
        grid += cells(some, 60, 0, prior=prior)
    # the longest last: many dimensions, and bounds on every box of noise
    grid += cells(some, 30, 0, k=3) + cells(some, 10, 0, k=5)
    grid += cells(some[:1], 8, 0, assumed="unknown")
    return grid + cells(some[1:], 4, 0, assumed="unknown")


def _cell(params: Params, seed: int) -> Record:
    """One questionnaire; a person has the same taste, items and luck in all of her cells."""
    person, k = int(params["person"] or 0), int(params["k"] or 0)
    kind, prior = str(params["kind"]), str(params["prior"])
    rng = np.random.default_rng([26, person])
    values = rng.random((int(params["items"] or 0), k))
    w = rng.dirichlet(np.ones(k) if prior == "none" else TASTES)
    noise = dict(KINDS.get(kind) or {"flip_prob": float(kind.split()[1])})
    size = float(np.linalg.norm(w))  # temperatures are meant for weights that sum to 1
    if "bradley_terry_temperature" in noise:
        noise["bradley_terry_temperature"] /= size
    luck = np.random.default_rng([27, person])
    user = NoisyUser(w / size, 0.0, random_state=luck, **noise)
    known = {"right": TASTES, "wrong": TASTES[::-1]}.get(prior)
    session = ReliableElicitor(
        values, target_regret=TARGET, confidence=1 - ALPHA, check_every=0,
        errors=ASSUMED[str(params["assumed"])],
        prior=None if known is None else rng.dirichlet(known, size=3000),
        stop=str(params["stop"]),  # type: ignore[arg-type]  # one of the three
        show=int(params["show"] or 2), max_questions=int(params["most"] or 0),
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


def _of(frame: pd.DataFrame, **how: Any) -> pd.DataFrame:
    """The cells of one kind; reliable pairs under AtMost(0.1) without a prior unless it is said."""
    usual = {"stop": "reliable", "show": 2, "assumed": LAST, "prior": "none"}
    usual["k"] = 4 if (frame.k == 4).any() else 3
    for name, value in (usual | how).items():
        frame = frame[frame[name] == value]
    return frame


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for assumed, rule in ((LAST, "last sums"), (LARGEST, "largest sums")):
        for flip in FLIPS:
            part = _of(frame, assumed=assumed, kind=f"flip {flip:g}")
            limit = ALPHA if flip <= 0.1 else 0.08
            what = f"{int(part.false.sum())} of {len(part)} false; share"
            told = f"False certificates at {100 * flip:g} % flips under AtMost(0.1), {rule}"
            found.append(at_most("26.05", told, float(part.false.mean()), limit, what=what))
    return found + (_questions(frame) if len(part) >= 100 else [])


def _questions(frame: pd.DataFrame) -> list[Verdict]:
    """Medians and shares of certified people, as they were set in advance; then what has no bar."""
    found = []
    for assumed, rule in ((LARGEST, "largest sums"), (LAST, "last sums")):
        for flip, most in zip(FLIPS, (16, 19, 21, 27)):
            part = _of(frame, assumed=assumed, kind=f"flip {flip:g}")
            told = f"Median questions at {100 * flip:g} % flips, {rule}"
            if assumed == LARGEST:  # for which the numbers were set
                found.append(at_most("26.06", told, float(part.questions.median()), most))
            else:
                found.append(_seen("26.06", told, part))
            told = f"Certified within 60 questions at {100 * flip:g} % flips, {rule}"
            found.append(at_least("26.05", told, float(part.certified.mean()), 0.95))
    for kind, most in (("flip 0", 14), ("flip 0.1", 18)):
        part = _of(frame, show=3, kind=kind)
        told = f"Median questions, best of three, {kind}"
        found.append(at_most("26.06", told, float(part.questions.median()), most))
    part = _of(frame, assumed="20 %, largest sums")
    told = "Median questions at 20 % flips under AtMost(0.2), at most 80"
    found.append(at_most("26.05", told, float(part.questions.median()), 45))
    told = "False certificates at 20 % flips under AtMost(0.2)"
    found.append(at_most("26.05", told, float(part.false.mean()), ALPHA))
    for kind, most in zip(KINDS, (20, 20, 22, 20)):
        part = _of(frame, kind=kind)
        told = f"{kind}: median questions"
        found.append(at_most("26.07", told, float(part.questions.median()), most))
        told = f"{kind}: false certificates of {len(part)}"
        found.append(at_most("26.07", told, float(part.false.sum()), 3))
    return found + [_seen(claim, told, _of(frame, **how)) for claim, told, how in _SEEN]


_SEEN: list[tuple[str, str, dict[str, Any]]] = [
    ("26.11", f"Coin tossers under AtMost(0.1), 40 questions, {rule}",
     {"kind": "coin", "assumed": assumed})
    for assumed, rule in ((LAST, "last sums"), (LARGEST, "largest sums"))
] + [
    ("26.06", f"{told}, {kind}", {"kind": kind, **how})
    for told, how in (
        ("Best of four", {"show": 4}), ("Three attributes", {"k": 3}),
        ("Five attributes", {"k": 5}), ("Nothing assumed about the share", {"assumed": "unknown"}),
        ("People of a population, flat prior", {"prior": "flat"}),
        ("The same people, their population as the prior", {"prior": "right"}),
        ("The same people, another population as the prior", {"prior": "wrong"}),
    )
    for kind in ("flip 0", "flip 0.1")
] + [("26.07", "logit .01, just noticeable difference .03",
      {"kind": "logit .01", "assumed": "10 %, jnd .03"})]  # fmt: skip
"""What is looked at without a promise."""


def _seen(claim: str, told: str, part: pd.DataFrame) -> Verdict:
    asked, n = part.questions, len(part)
    low, high = asked.quantile([0.1, 0.9])
    shown = (
        f"{asked.median():g} questions ({low:.3g} to {high:.3g}), {int(part.certified.sum())} of "
        f"{n} certified, {int(part.false.sum())} false"
    )
    return seen(claim, told, shown)


def _false(frame: pd.DataFrame) -> Figure:
    """False certificates (left) and questions with their 10 to 90 % band (right) against the share
    of flipped answers, for the three stops. The dashed line is the stated error probability."""
    figure, (left, right) = panels(2, width=4.0, height=3.4)
    for i, stop in enumerate(("reliable", "credible", "exact")):
        found = _of(frame, stop=stop)
        found = found[found.kind.str.startswith("flip")]
        groups = found.groupby(found.kind.str.split().str[1].astype(float))
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
    claims=("26.05", "26.06", "26.07", "26.11"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"certificates": _false, "region": region},
)
