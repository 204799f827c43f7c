"""Which jobs does each education lead to? Whole sets from one application per person.

Every census row is one "click": a person with some education holds one occupation. From single
rows the learner finds the set of occupations that an education leads to. The census data are used
if a local copy is found (COUNTERPLAY_DATA); else the question is which pixels each handwritten
digit lights, from single lit pixels (data that come with scikit-learn).
"""

import numpy as np
import pandas as pd

from counterplay import datasets
from counterplay.errors import DataUnavailableError, MissingDependencyError
from counterplay.strategic import bounds
from counterplay.strategic.lab import NeighborhoodLearner

rng = np.random.default_rng(0)
try:
    census = datasets.fetch("adult", download=False)
    rows = census.frame[["education", "occupation"]].dropna()
    rows = rows[rows["occupation"] != "?"].sample(frac=1, random_state=0)
    who, click = rows["education"].to_numpy(str), rows["occupation"].to_numpy(str)
    what, k = "census: education -> occupations", 8
except (DataUnavailableError, MissingDependencyError):
    digits = datasets.load("digits")
    order = np.repeat(rng.permutation(len(digits.y)), 8)  # eight visits of every image
    lit = np.asarray(digits.X)[order] >= 12
    keep = lit.any(axis=1)
    who = np.asarray(digits.y)[order][keep].astype(str)
    pixel = np.where(lit[keep], rng.random(lit[keep].shape), -1).argmax(axis=1)
    click = np.array([f"pixel {i:02d}" for i in pixel])
    what, k = "digits: digit -> lit pixels", 20

half = len(who) // 2
items = np.unique(click)


def shares(people: np.ndarray, clicks: np.ndarray) -> dict[str, np.ndarray]:
    """Share of each item among the clicks of each person."""
    return {p: np.array([(clicks[people == p] == i).mean() for i in items]) for p in np.unique(who)}


# The set to be learned: items with more than 1/(2k) of the clicks in the held-out half.
held_out = shares(who[half:], click[half:])
truth = {
    p: {items[i] for i in np.argsort(-share)[:k] if 2 * k * share[i] > 1}
    for p, share in held_out.items()
}
print(f"{what}: {len(truth)} rows, {items.size} columns, sets of at most {k}")
print(f"{'clicks':>8}{'overlap of sets (F1)':>24}{'every clicked item':>22}{'most popular':>16}")


def overlap(said: dict[str, set[str]]) -> float:
    scores = [2 * len(said[p] & truth[p]) / max(1, len(said[p]) + len(truth[p])) for p in truth]
    return float(np.mean(scores))


results = {}
for T in (200, 1000, half):
    people, clicks = who[:T], click[:T]
    learner = NeighborhoodLearner(k=k).fit(people, clicks)
    known = set(people.tolist())
    sets = {p: learner.predict_sets([p])[0] if p in known else set() for p in truth}
    every = {p: set(clicks[people == p].tolist()) for p in truth}
    names, counts = np.unique(clicks, return_counts=True)
    best = set(names[np.argsort(-counts)[:k]].tolist())
    popular = dict.fromkeys(truth, best)
    results[T] = overlap(sets), overlap(every), overlap(popular)
    print(f"{T:8d}{results[T][0]:24.3f}{results[T][1]:22.3f}{results[T][2]:16.3f}")

learner = NeighborhoodLearner(k=k).fit(who[:half], click[:half])
first = sorted(truth)[0]
print(f"{first}: {sorted(learner.predict_sets([first])[0])}")
worst = bounds.graph_T_agnostic(k, learner.log_size_, eps=0.1)
print(f"worst-case number of clicks for loss within 0.1 of 3k times the best: {worst}")

assert results[half][0] > 0.9
assert results[half][0] > max(results[half][1:])

shown = pd.DataFrame(results, index=["learned sets", "every clicked item", "most popular"]).T
axes = shown.plot(marker="o", xlabel="clicks", ylabel="overlap with the true sets (F1)")
axes.figure.savefig("strategic_clicks.png", bbox_inches="tight")
