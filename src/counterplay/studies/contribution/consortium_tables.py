"""Consortia cut from real tables: who owns which rows, which rows are fresh, what truth is.

Sites follow a natural column; each owns a few rows, all other rows of its kind are fresh and tell
how well it is really served.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.contribution.sites.learners import Learner
from counterplay.contribution.sites.reading import Sites, read_sites
from counterplay.contribution.sites.scoring import score_rows
from counterplay.core.validation import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

SIZES = {
    "heloc": (700, 400, 250, 120, 60),
    "adult": (1200, 700, 400, 250, 150, 80),
    "taiwan": (1500, 900, 600, 400, 250, 150),
    "cancer": (140, 90, 60, 40),
}
WITHIN = {"heloc": 0.015, "adult": 0.015, "taiwan": 0.02, "cancer": 0.02}
METRIC = {"taiwan": "balanced_accuracy"}
REDRAWS = 12


@dataclass(frozen=True)
class Consortium:
    """Sites with the rows they own, and all rows (owned first) for the truth."""

    sites: Sites
    everything: Learner
    owned: tuple[IntArray, ...]
    fresh: tuple[IntArray, ...]
    metric: str
    within: float

    def truth(self, rows: FloatArray, redraws: int, seed: int) -> FloatArray:
        """Mean score on fresh rows of models that were trained on that many rows of each site."""
        if not rows.sum():  # a plan that asks for nothing has no model
            return np.full(len(self.fresh), -np.inf)
        rng = np.random.default_rng([seed, 9])
        whole = all(int(n) >= len(own) for n, own in zip(rows, self.owned))
        codes = self.everything.sites.labels.codes
        found = []
        for _ in range(1 if whole else redraws):
            train = np.concatenate(
                [rng.permutation(own)[: int(n)] for n, own in zip(rows, self.owned)]
            )
            answer, chance = self.everything.answer(train, np.concatenate(self.fresh))
            start, scores = 0, []
            for test in self.fresh:
                part = slice(start, start + len(test))
                start += len(test)
                score = score_rows(self.metric, codes[test], answer[part],
                                   None if chance is None else chance[part])  # fmt: skip
                scores.append(np.nan if score is None else score.value)
            found.append(scores)
        return np.asarray(np.mean(found, axis=0))


def consortium(data: str, seed: int) -> Consortium:
    """The consortium of a table: who owns how many rows is permuted by the seed."""
    frame, label, site = _table(data)
    rng = np.random.default_rng([seed, 7])
    sizes = rng.permutation(np.array(SIZES[data]))
    owned, fresh, own_frames = {}, {}, {}
    for name, size in zip(sorted(frame[site].unique()), sizes):
        part = frame[frame[site] == name].drop(columns=site)
        order = rng.permutation(len(part))
        owned[name], fresh[name] = order[:size], order[size:]
        own_frames[name] = part
    sites = read_sites({n: own_frames[n].iloc[owned[n]] for n in owned}, label)
    pool = read_sites(own_frames, label)
    starts = dict(zip(pool.names, pool.starts.tolist()))
    return Consortium(
        sites,
        Learner(pool, "logistic", chances=False),
        tuple(starts[n] + owned[n] for n in pool.names),
        tuple(starts[n] + fresh[n] for n in pool.names),
        METRIC.get(data, "accuracy"),
        WITHIN[data],
    )


@cache
def _table(data: str) -> tuple[pd.DataFrame, str, str]:
    """Rows, column of the label and column of the site."""
    import pandas as pd

    from counterplay import datasets

    if data == "cancer":
        from sklearn.datasets import load_breast_cancer

        frame: Any = load_breast_cancer(as_frame=True).frame
        frame["site"] = pd.qcut(frame["mean texture"], 4, labels=False).map("clinic {}".format)
        return frame.drop(columns="mean texture"), "target", "site"
    fetched: Any = datasets.fetch(data)
    frame = fetched.frame.copy()
    if data == "heloc":
        age = frame.pop("MSinceOldestTradeOpen")
        frame["site"] = pd.qcut(age, 5, labels=False).map("branch {}".format)
        return frame, "RiskPerformance", "site"
    if data == "adult":
        largest = frame["occupation"].value_counts().index[: len(SIZES[data])]
        frame = frame[frame["occupation"].isin(largest)].rename(columns={"occupation": "site"})
        frame = frame.drop(columns="fnlwgt")  # a sampling weight, not a feature
        return frame.reset_index(drop=True), "income", "site"
    frame = frame[frame["EDUCATION"].isin([1, 2, 3])].reset_index(drop=True)
    kind = frame.pop("EDUCATION").astype(str) + " sex " + frame.pop("SEX").astype(str)
    frame["site"] = "education " + kind
    gone = [c for c in ("ID",) if c in frame.columns]
    label = next(c for c in frame.columns if "default" in c.lower() and c != "site")
    return frame.drop(columns=gone), label, "site"
