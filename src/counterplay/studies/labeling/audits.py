"""Audits that may be looked at after every answer: how often is a certificate false?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from counterplay.core.audit import allowed_wrong, log_evidence, most_wrong
from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.seeds import generator
from counterplay.core.validation import BoolArray, IntArray
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MAX_ERROR, ALPHA = 0.05, 0.05
LOOKS = 500  # checks of one run
POOLS = ((600, 31), (600, 40), (200, 12))
WRONG = (101, 105, 110, 120, 140, 170, 200, 250, 300, 400)  # of 2,000 labels; 100 are allowed


def _grid(scale: Scale) -> list[Params]:
    trials = 300 if scale == "quick" else 3000
    pools = [*POOLS, *((2000, wrong) for wrong in WRONG)]
    return [{"labels": n, "wrong": wrong, "trials": trials} for n, wrong in pools]


def _cell(params: Params, seed: int) -> Record:
    """Random orders of one delivery: which rules pass it falsely at some look."""
    n, wrong = int(params["labels"] or 0), int(params["wrong"] or 0)
    trials, rng = int(params["trials"] or 0), generator(seed)
    bad = np.arange(n) < wrong
    passed = np.zeros(3, dtype=np.int64)
    path: IntArray | None = None
    for _ in range(trials):
        found = np.cumsum(rng.permutation(bad)[: min(n, LOOKS)])
        here = _passes(found, n, wrong)
        passed += here
        if path is None and here[2] and not here[0]:
            path = found
    record: dict[str, Any] = dict(zip(("anytime", "one_sided", "peeked"), passed.tolist()))
    record["path"] = (
        "" if path is None else ",".join(map(str, np.flatnonzero(np.diff(path, prepend=0))))
    )
    return record


def _passes(found: IntArray, n: int, wrong: int) -> BoolArray:
    """Whether one order passes at some look: with the side condition, without it, by peeking."""
    t = np.arange(1, len(found) + 1)
    allowed = allowed_wrong(n, MAX_ERROR)
    m = allowed + found + 1  # wrong labels that are found are corrected
    possible = m <= n - (t - found)
    refuted = ~possible
    at, k = t[possible], found[possible]
    refuted[possible] = log_evidence(m[possible], n, at, k, MAX_ERROR) >= -np.log(ALPHA)
    honest = refuted & (~possible | (m * t > found * n))
    limit = stats.beta.ppf(1 - ALPHA, found + 1, np.maximum(t - found, 1))
    peeked = limit <= MAX_ERROR
    # it is false while more labels than allowed remain wrong
    false = wrong - found > allowed
    return np.array([(rule & false).any() for rule in (honest, refuted, peeked)])


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    verdicts = []
    for row in frame.itertuples():
        noise = 3 * (ALPHA * (1 - ALPHA) / row.trials) ** 0.5
        verdicts.append(
            at_most("24.05", f"{row.labels} labels, {row.wrong} wrong: false certificates at any "
                    "look.", row.anytime / row.trials, ALPHA + noise, what="share")
        )  # fmt: skip
    worst = frame[(frame["labels"] == 2000) & (frame["wrong"] == 300)].iloc[0]
    verdicts += [
        equals("24.06", "300 of 2,000 wrong, with the side condition: false certificates.",
               worst["anytime"], 0, what=f"of {worst['trials']}"),
        at_least("24.06", "The same without the side condition.",
                 worst["one_sided"] / worst["trials"], 0.5, what="share"),
    ]  # fmt: skip
    return verdicts


def _bound(frame: pd.DataFrame) -> Figure:
    """One audit of 2,000 labels of which about 110 are wrong, 100 allowed: the bound that may be
    looked at after every answer stays above the share of labels that are still wrong; a fixed-time
    interval that is looked at all the time passes the delivery falsely (red).
    """
    there = frame[(frame["labels"] == 2000) & (frame["path"] != "")]
    row = there.iloc[int(np.argmin(np.abs(there["wrong"] - 110)))]
    t = np.arange(1, LOOKS + 1)
    found = np.zeros(LOOKS, dtype=np.int64)
    found[[int(place) for place in str(row["path"]).split(",")]] = 1
    found = np.cumsum(found)
    n, wrong = int(row["labels"]), int(row["wrong"])
    bounds = [max(0, most_wrong(n, int(a), int(k), MAX_ERROR, ALPHA) - int(k))
              for a, k in zip(t, found)]  # fmt: skip
    anytime = np.minimum.accumulate(np.array(bounds)) / n
    peeked = stats.beta.ppf(1 - ALPHA, found + 1, t - found)
    figure, (ax,) = panels(1, width=6.4, height=4.0)
    ax.plot(t, 100 * anytime, color=PALETTE[0], label="bound, valid at every look")
    ax.plot(t, 100 * peeked, color="0.55", lw=1, label="Clopper-Pearson, looked at all the time")
    below = (peeked <= MAX_ERROR) & (wrong - found > allowed_wrong(n, MAX_ERROR))
    ax.plot(t[below], 100 * peeked[below], ".", color=PALETTE[1], ms=5, label="passes falsely")
    ax.plot(t, 100 * (wrong - found) / n, color=PALETTE[2], label="still wrong")
    ax.axhline(100 * MAX_ERROR, label="to be shown", **THEORY)
    ax.set(xlabel="labels checked", ylabel="wrong labels (%)", ylim=(0, 20), xlim=(0, LOOKS))
    ax.legend()
    return figure


def _side(frame: pd.DataFrame) -> Figure:
    """False certificates of 2,000 labels at any look, against the number of wrong ones (100 are
    allowed), with and without the side condition; 1.96 standard errors.
    """
    part = frame[frame["labels"] == 2000].sort_values("wrong")
    figure, (ax,) = panels(1, width=6.4, height=4.0)
    kinds = (("peeked", "Clopper-Pearson, looked at all the time", "^", 5),
             ("one_sided", "without the side condition", "s", 1),
             ("anytime", "with it", "o", 0))  # fmt: skip
    for name, label, marker, colour in kinds:
        share = (part[name] / part["trials"]).to_numpy(dtype=float)
        error = 1.96 * np.sqrt(share * (1 - share) / part["trials"].to_numpy(dtype=float))
        ax.errorbar(part["wrong"], 100 * share, 100 * error, fmt=f"{marker}-", ms=4, capsize=2,
                    color=PALETTE[colour], label=label)  # fmt: skip
    ax.axhline(100 * ALPHA, label="promised", **THEORY)
    ax.set(xlabel="wrong labels among 2,000", ylabel="false certificates (%)", ylim=(-3, 103))
    ax.legend(loc="upper left")
    return figure


STUDY = Study(
    name="audits",
    title="An audit that may be stopped at any time",
    question=(
        "Somebody delivered labels, too many of them wrong, and every answer of the audit is "
        "looked at. How often is the delivery passed? With the anytime-valid bound, without its "
        "side condition, and with an interval made for one fixed time?"
    ),
    claims=("24.05", "24.06"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"bound": _bound, "side": _side},
)
