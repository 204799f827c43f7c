"""What is promised to people who slip, tried at length: coverage, priors, curves, signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import FloatArray
from counterplay.elicitation import AtMost, Catalogue, ReliableElicitor
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ALPHA = 0.05
TRIED = (
    "slips", "shuffled", "better one second", "wrong prior", "curve", "unknown sign",
    "curve taken for a line", "wrong prior alone", "opposite prior",
)  # fmt: skip
FULL = dict(zip(TRIED, (2000, 120, 100, 40, 30, 30, 30, 40, 40)))
STOPS = {
    "wrong prior": ("reliable", "credible"), "wrong prior alone": ("credible",),
    "opposite prior": ("reliable", "credible"),
}  # fmt: skip
PRIORS = {"wrong prior": 12 * np.array([0.4, 0.3, 0.2, 0.1]),
          "opposite prior": 40 * np.array([0.85, 0.1, 0.05])}  # fmt: skip
QUESTIONS = 60


def _grid(scale: Scale) -> Sequence[Params]:
    people = FULL if scale == "full" else dict.fromkeys(TRIED, 1)
    questions = QUESTIONS if scale == "full" else 8
    return [
        {"kind": kind, "stop": stop, "questions": questions, "person": i}
        for kind in (*TRIED[1:], TRIED[0])  # the longest last
        for stop in STOPS.get(kind, ("reliable",))
        for i in range(people[kind])
    ]


def _cell(params: Params, seed: int) -> Record:
    kind, person = str(params["kind"]), int(params["person"] or 0)
    most = int(params["questions"] or 0)
    same = kind.removesuffix(" taken for a line").removesuffix(" alone")  # the same people
    rng = np.random.default_rng([26, TRIED.index(same), person])
    if kind in TRIED[:3]:
        left = _left(kind, person, most, rng)
        return {"questions_asked": most, "left": left, "certified": None, "false": None}
    session, worth = _session(kind, str(params["stop"]), person, most, rng)
    flip = 0.05 if same in PRIORS else 0.1
    while (query := session.ask()) is not None:
        best = int(np.argmax(worth[list(query.rows)]))
        session.tell(1 + (best if rng.random() >= flip else 1 - best))
    result = session.result
    span = worth.max() - (worth.min() if session._items.ranged else 0.0)
    regret = float((worth.max() - worth[result.item]) / span)
    reached = bool(session._state.view.certified) or params["stop"] == "credible"
    false = bool(reached and regret > session.target_regret + 1e-9)
    asked = result.n_queries
    return {"questions_asked": asked, "left": None, "certified": reached, "false": false}


def _left(kind: str, person: int, most: int, rng: np.random.Generator) -> bool:
    """Whether the true preference leaves the region at some time under the real policy."""
    items, w = rng.random((12, 2)), rng.dirichlet(np.ones(2))
    rate = 0.1 if kind == "slips" else 0.3
    session = ReliableElicitor(
        items, target_regret=1e-6, errors=AtMost(rate, running=True), check_every=0,
        max_questions=most, random_state=person,
    )  # fmt: skip
    if kind == "better one second":  # instead of a random order
        session._state._order = lambda rows: tuple(  # type: ignore[method-assign]
            sorted(rows, key=lambda row: float(items[row] @ w))
        )
    while (query := session.ask()) is not None:
        best = int(np.argmax([option.value @ w for option in query.options]))
        if kind == "slips":
            chosen = best if rng.random() >= rate else 1 - best
        else:  # ticks the first one, whatever it is
            chosen = 0 if rng.random() < 0.6 else best
        session.tell(chosen + 1)
        (region,) = session._state.regions
        if region.evidence(w[None])[0] >= region.limit:
            return True
    return False


def _session(
    kind: str, stop: str, person: int, most: int, rng: np.random.Generator
) -> tuple[ReliableElicitor, FloatArray]:
    """A questionnaire on items of the kind, and what they are worth to the person."""
    import pandas as pd

    options: dict[str, Any] = {
        "check_every": 0, "max_questions": most, "stop": stop, "random_state": person,
    }  # fmt: skip
    if kind.removesuffix(" alone") in PRIORS:  # people want what the prior wants least
        taste = PRIORS[kind.removesuffix(" alone")]
        prior, w = rng.dirichlet(taste[::-1], size=3000), rng.dirichlet(taste)
        items = rng.random((300, len(taste)))
        session = ReliableElicitor(items, prior=prior, **options)
        if kind == "wrong prior alone":  # without the fifth that stays flat
            session._particles = prior
            session._restart([])
        return session, items @ w
    frame = pd.DataFrame(rng.random((200, 2)), columns=["quality", "price"])
    if kind.startswith("curve"):  # each third of the price range matters less than the one before
        frame["quality"] = frame.price + 0.1 * frame.quality  # quality has its price
        catalogue = Catalogue(frame, ["quality"], ["price"], curves={"price": 3})
        steps = np.sort(rng.dirichlet(np.ones(3)))[::-1]
        share = float(rng.uniform(0.3, 0.7))
        worth = catalogue.values @ np.append(share, (1 - share) * steps)
        source = catalogue if kind == "curve" else Catalogue(frame, ["quality"], ["price"])
        return ReliableElicitor(source, **options), worth
    catalogue = Catalogue(frame.assign(size=rng.random(200)), ["quality"], ["price"],
                          either=["size"])  # fmt: skip
    w = rng.dirichlet(np.ones(3)) * [1, 1, 1 if person % 2 else -1]
    return ReliableElicitor(catalogue, **options), np.asarray(catalogue.values @ w)


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for kind, claim in (("slips", "26.03"), ("shuffled", "26.10")):
        rows = frame[frame.kind == kind]
        limit = ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / len(rows))
        told = f"{kind}: share of people who lose their own preference at some time"
        found.append(at_most(claim, told, float(rows.left.mean()), limit))
    rows = frame[frame.kind == "better one second"]
    if rows.questions_asked.iloc[0] >= QUESTIONS:
        told = "First-tickers who are shown the better one second lose their preference"
        found.append(at_least("26.10", told, float(rows.left.mean()), 0.6))
    for kind, claim, limit in (("curve", "26.12", 0.1), ("unknown sign", "26.13", 0.1)):
        rows = frame[frame.kind == kind]
        found.append(at_most(claim, f"{kind}: false certificates", float(rows.false.mean()), limit))
    for kind, told in (("wrong prior", "Wrong prior"), ("opposite prior", "Opposite prior")):
        rows = frame[(frame.kind == kind) & (frame.stop == "reliable")]
        told = f"{told}, 5 % flips: false certificates of the reliable stop"
        found.append(at_most("26.08", told, float(rows.false.mean()), ALPHA))
    for kind, told in (
        ("wrong prior alone", "Wrong prior of which no fifth is flat: false credible stops of 40"),
        ("opposite prior", "Opposite prior, one fifth of it flat: false credible stops of 40"),
    ):
        rows = frame[(frame.kind == kind) & (frame.stop == "credible")]
        if len(rows) >= FULL[kind]:
            found.append(at_least("26.08", told, float(rows.false.sum()), 8))
    return found


def _shares(frame: pd.DataFrame) -> Figure:
    """How often a promise was broken, with 95 % intervals: the person's own preference excluded
    (first three), or a certificate that is false. The dashed line is what was promised."""
    figure, (ax,) = panels(1, width=6.5, height=3.4)
    rows = [(f"{kind}, {stop}" if "prior" in kind else kind, part)
            for (kind, stop), part in frame.groupby(["kind", "stop"], sort=False)]  # fmt: skip
    for i, (_, part) in enumerate(rows):
        events = part.left.where(part.left.notna(), part.false).astype(bool)
        shown = clopper_pearson(int(events.sum()), len(events), 0.95)
        ends = [[events.mean() - shown.low], [shown.high - events.mean()]]
        ax.errorbar([events.mean()], [i], xerr=np.abs(ends), fmt="o", color=PALETTE[0], capsize=3)
    ax.axvline(ALPHA, color="0.3", ls="--", lw=1)
    ax.set_yticks(range(len(rows)), [name for name, _ in rows])
    ax.set_xlabel("share of people")
    return figure


PROMISES = Study(
    name="promises",
    title="Promises to people who slip, tried at length",
    question=(
        "Does the true preference stay in the region for people who slip exactly at the bound, "
        "what does shuffling do, and do certificates hold with a wrong prior, a worth that bends "
        "and an attribute of unknown sign?"
    ),
    claims=("26.03", "26.08", "26.10", "26.12", "26.13"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"broken": _shares},
)
