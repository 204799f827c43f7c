"""Questions, false certificates, seconds per question; rounds per second of the guard.

Run: ``python benchmarks/bench_people.py [people]``. Ratios are of one run on one machine.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from counterplay.elicitation import (
    LinearPreferenceUser,
    PolytopeElicitor,
    ReliableElicitor,
    answered_by,
)
from counterplay.tradeoff import ChampionChallenger, HarmBudget


def main() -> None:
    """Print both tables."""
    people = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    exact = questions("exact", people)
    print("stop          questions  ratio  false  s/question   (300 items, 4 attributes, 5 %)")
    for stop in ("exact", "credible", "reliable"):
        found = exact if stop == "exact" else questions(stop, people)
        ratio = found["questions"] / exact["questions"]
        print(
            f"{stop:12}  {found['questions']:9.1f}  {ratio:5.2f}  {found['false']:5.0f}  "
            f"{found['seconds']:10.4f}"
        )
    for K in (10, 100):
        print(f"guard, {K} models: {rounds_per_second(K):,.0f} rounds/s")


def questions(stop: str, people: int) -> dict[str, float]:
    """Median questions, false recommendations and time per question of consistent people."""
    counts, false, spent = [], 0, 0.0
    for seed in range(people):
        rng = np.random.default_rng(seed)
        values, w = rng.random((300, 4)), rng.dirichlet(np.ones(4))
        start = time.process_time()
        session: Any
        if stop == "exact":
            session = PolytopeElicitor(values, target_regret=0.05, random_state=seed)
        else:
            session = ReliableElicitor(values, stop=stop, check_every=0, random_state=seed)
        user = LinearPreferenceUser(w / np.linalg.norm(w), eps=1e-9)
        result = answered_by(session, user)
        spent += time.process_time() - start
        counts.append(result.n_queries)
        worth = values @ w
        false += worth[result.index] < 0.95 * worth.max()
    total = max(1, sum(counts))
    return {"questions": float(np.median(counts)), "false": false, "seconds": spent / total}


def rounds_per_second(K: int, rounds: int = 5000) -> float:
    """Decisions and outcomes of the live guard per second."""
    budget = HarmBudget(0.1, 5.0)
    guard = ChampionChallenger(
        n_models=K, horizon=rounds, budget=budget, feedback="live", random_state=0
    )
    start = time.process_time()
    for _ in range(rounds):
        guard.observe(guard.act().id, primary=0.2, secondary=0.05)
    return rounds / (time.process_time() - start)


if __name__ == "__main__":
    main()
