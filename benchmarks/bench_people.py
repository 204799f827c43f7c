"""People who err and guards in production, beside the neighbours, in one run.

Run: ``python benchmarks/bench_people.py [people] [questions|panels|guard ...]``. A neighbour that
is not installed is skipped, and the table says so; panels and the stream of real loans need
COUNTERPLAY_DATA. Times are CPU seconds of one run on one machine.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from counterplay.elicitation import (
    PolytopeElicitor,
    ReliableElicitor,
)
from counterplay.errors import DataUnavailableError
from counterplay.tradeoff import ChampionChallenger, HarmBudget

TARGET, K, ITEMS = 0.05, 4, 300
FLIPS = (0.0, 0.1)
PEER_QUESTIONS = 14  # what the reliable stop needs at 0 % flips


def main() -> None:
    """Print the tables that were asked for."""
    people = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    wanted = sys.argv[2:] or ["questions", "panels", "guard"]
    tables = {"questions": lambda: questions(people), "panels": panels, "guard": guard}
    for name in wanted:
        tables[name]()


def questions(people: int) -> None:
    """Questions, false recommendations and CPU seconds per question."""
    print(f"{people} people, {ITEMS} items, {K} attributes, target 5 %; regret after the last one")
    print(f"{'method':22} flips  questions  ratio  beyond 5 %  s/question")
    methods: dict[str, Callable[..., tuple[int, int]]] = {
        "PolytopeElicitor": _exact,
        "credible stop": lambda *a: _ours("credible", *a),
        "reliable stop": lambda *a: _ours("reliable", *a),
        "BoTorch PairwiseGP": _botorch,
        "choix, random pairs": _choix,
    }
    needs = {"BoTorch PairwiseGP": "botorch", "choix, random pairs": "choix"}
    for flip in FLIPS:
        base = 0.0
        for name, method in methods.items():
            if missing(needs.get(name)):
                continue
            counts, false, start = [], 0, time.process_time()
            for seed in range(people):
                rng = np.random.default_rng(seed)
                values, w = rng.random((ITEMS, K)), rng.dirichlet(np.ones(K))
                asked, item = method(values, w, flip, seed)
                counts.append(asked)
                worth = values @ w
                false += worth[item] < (1 - TARGET) * worth.max()
            spent = (time.process_time() - start) / max(1, sum(counts))
            median = float(np.median(counts))
            base = base or median
            print(f"{name:22} {flip:5.2f}  {median:9.1f}  {median / base:5.2f}  {false:10d}  "
                  f"{spent:10.4f}")  # fmt: skip
    missing("aprel")


def missing(package: str | None) -> bool:
    """Whether a neighbour is not installed; says so."""
    if package is None or importlib.util.find_spec(package) is not None:
        return False
    print(f"{package} is not installed: skipped")
    return True


def _slips(w: Any, flip: float, seed: int) -> Callable[[Any, Any], bool]:
    """A person who prefers the first of two, and says the other with this probability."""
    rng = np.random.default_rng([7, seed])
    return lambda a, b: bool((a @ w >= b @ w) ^ (rng.random() < flip))


def _exact(values: Any, w: Any, flip: float, seed: int) -> tuple[int, int]:
    session = PolytopeElicitor(values, target_regret=TARGET, max_contradictions=10**6,
                               random_state=seed)  # fmt: skip
    return _asked(session, _slips(w, flip, seed))


def _ours(stop: Any, values: Any, w: Any, flip: float, seed: int) -> tuple[int, int]:
    session = ReliableElicitor(values, stop=stop, check_every=0, random_state=seed)
    return _asked(session, _slips(w, flip, seed))


def _asked(session: Any, prefers: Callable[[Any, Any], bool]) -> tuple[int, int]:
    while (query := session.ask()) is not None:
        session.tell("first" if prefers(query.first.value, query.second.value) else "second")
    result = session.result()
    return result.n_queries, int(result.index)


def _botorch(values: Any, w: Any, flip: float, seed: int) -> tuple[int, int]:
    """A Gaussian process of comparisons; best against the most uncertain, a fixed number."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

    prefers, rng = _slips(w, flip, seed), np.random.default_rng(seed)
    table = torch.tensor(values)
    pairs = [tuple(map(int, rng.choice(len(values), 2, replace=False)))]
    said = [pairs[0] if prefers(values[pairs[0][0]], values[pairs[0][1]]) else pairs[0][::-1]]
    mean = torch.zeros(len(values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(PEER_QUESTIONS):
            model = PairwiseGP(table, torch.tensor(said))
            fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
            posterior = model.posterior(table)
            mean, spread = posterior.mean.flatten(), posterior.variance.flatten().sqrt()
            best = int(mean.argmax())
            upper = mean + spread
            upper[best] = -torch.inf
            rival = int(upper.argmax())
            said.append((best, rival) if prefers(values[best], values[rival]) else (rival, best))
    return len(said) - 1, int(mean.argmax())


def _choix(values: Any, w: Any, flip: float, seed: int) -> tuple[int, int]:
    """Bradley-Terry scores of random pairs, the same number of questions."""
    import choix

    prefers, rng = _slips(w, flip, seed), np.random.default_rng(seed)
    said = []
    for _ in range(PEER_QUESTIONS):
        a, b = map(int, rng.choice(len(values), 2, replace=False))
        said.append((a, b) if prefers(values[a], values[b]) else (b, a))
    scores = choix.ilsr_pairwise(len(values), said, alpha=0.01)
    return len(said), int(np.argmax(scores))


def panels() -> None:
    """Hierarchical fit against a mixed logit, new people's choices after four of their own."""
    from counterplay.studies.elicitation.panels import _chances, _predicted, _split
    from counterplay.studies.elicitation.recorded import panel_of

    try:
        train, test = _split(panel_of("train tickets"), 0)
    except DataUnavailableError as error:
        print(f"panels skipped: {error!s:.100}")
        return
    start = time.process_time()
    population = train.fit_population(random_state=0)
    spent = time.process_time() - start
    found = _predicted(population, train, test, 4)
    values, there, picked, _ = found.pop("truth")
    at = np.arange(len(picked))
    print("\ntrain tickets, after 4 own choices: log loss, CPU seconds of the fit")
    for method in ("pooled", "ridge", "hierarchical"):
        loss = float(-np.log(found[method][at, picked]).mean())
        told = f"{spent:.1f}" if method == "hierarchical" else ""
        print(f"{method:22} {loss:.3f}  {told}")
    if missing("xlogit"):
        return
    from xlogit import MixedLogit

    x, _, chosen = population._padded(train)
    n, m, _ = x.shape
    model, start = MixedLogit(), time.process_time()
    names = list(train.attributes)
    model.fit(
        X=x.reshape(n * m, -1), y=(np.arange(m)[None] == chosen[:, None]).ravel().astype(int),
        varnames=names, alts=np.tile(np.arange(m), n), ids=np.repeat(np.arange(n), m),
        panels=np.repeat(train.who, m), randvars=dict.fromkeys(names, "n"), n_draws=500, verbose=0,
    )  # fmt: skip
    spent = time.process_time() - start
    k = len(names)
    rng = np.random.default_rng(0)
    tastes = model.coeff_[:k] + np.abs(model.coeff_[k : 2 * k]) * rng.standard_normal((500, k))
    tables = [_chances(values, there, np.tile(taste, (len(values), 1))) for taste in tastes]
    loss = float(-np.log(np.mean(tables, axis=0)[at, picked]).mean())
    print(f"{'xlogit MixedLogit':22} {loss:.3f}  {spent:.1f}   (no update by own choices)")


def guard() -> None:
    """Rounds per second, and harm above the budget on a stream of loans."""
    print("\nrounds per second")
    for models in (10, 100):
        print(f"{'guard':22} {models:4d} models  {rounds_per_second(models):,.0f}")
        if not missing("river"):
            print(f"{'river Exp3':22} {models:4d} models  {river_rounds_per_second(models):,.0f}")


def rounds_per_second(models: int, rounds: int = 5000) -> float:
    """Decisions and outcomes of the live guard per second."""
    budget = HarmBudget(0.1, 5.0)
    live: Any = ChampionChallenger(
        n_models=models, horizon=rounds, budget=budget, feedback="live", random_state=0
    )
    start = time.process_time()
    for _ in range(rounds):
        live.observe(live.act().id, primary=0.2, secondary=0.05)
    return rounds / (time.process_time() - start)


def river_rounds_per_second(models: int, rounds: int = 5000) -> float:
    """Pulls and updates of river's Exp3 per second."""
    from river import bandit

    policy, arms = bandit.Exp3(gamma=0.1, seed=0), list(range(models))
    start = time.process_time()
    for _ in range(rounds):
        policy.update(policy.pull(arms), 0.8)
    return rounds / (time.process_time() - start)


if __name__ == "__main__":
    main()
