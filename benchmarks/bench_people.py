"""People who err and guards in production, beside the neighbours, in one run.

Run: ``python benchmarks/bench_people.py [people] [questions|panels|guard|streams ...]``. A
neighbour that is not installed is skipped, and the table says so; panels and real streams need
COUNTERPLAY_DATA. APReL does not install beside a current NumPy: what it does (a posterior of the
weights by Metropolis steps, the pair of most mutual information) is written here. Times are CPU
seconds of one run on one machine.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import bench_elicitation as neighbours
import numpy as np
from ledger import Times, compare, growth, median_gain, skipped, timed

from counterplay.elicitation import (
    PolytopeElicitor,
    ReliableElicitor,
)
from counterplay.errors import DataUnavailableError
from counterplay.tradeoff import ChampionChallenger, HarmBudget

TARGET, K, ITEMS = 0.05, 4, 300
FLIPS = (0.0, 0.1)
BETA = 20.0  # inverse temperature of the softmax
PEER_QUESTIONS = 15  # about what the reliable stop needs without slips


def main() -> None:
    """Print the tables that were asked for."""
    people = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    tables = {
        "questions": lambda: questions(people), "panels": panels, "guard": guard,
        "streams": streams,
    }  # fmt: skip
    for name in sys.argv[2:] or tables:
        tables[name]()


def questions(people: int) -> None:
    """Questions, false recommendations and CPU seconds per question."""
    methods: dict[str, tuple[Callable[..., tuple[int, int]], str | None]] = {
        "credible stop": (lambda *a: _ours("credible", *a), None),
        "reliable stop": (lambda *a: _ours("reliable", *a), None),
        "PolytopeElicitor": (_exact, "counterplay"),
        "PairwiseGP+EUBO": (_botorch, "botorch"),
        "mutual information, as APReL": (_as_aprel, None),
        "random pairs": (_choix, "choix"),
    }
    _ours("reliable", *_person(10**6), 0.0, 0)  # compile
    for flip in FLIPS:
        found: dict[str, list[tuple[int, bool, float]]] = {}
        for name, (method, package) in methods.items():
            what = f"{people} people, {ITEMS} items, {K} attributes, {flip:.0%} slips"
            if missing(package, what):
                continue
            found[name] = asked(method, flip, people)
        own = {name: found.pop(name) for name in ("credible stop", "reliable stop")}
        for name, everyone in found.items():
            counts, false, seconds = zip(*everyone)
            for stop, ours in own.items():
                own_counts, own_false, own_seconds = zip(*ours)
                said: dict[str, Any] = {"against": name, "package": methods[name][1]}
                exact = name == "PolytopeElicitor" and stop == "reliable stop" and not flip
                compare("elicitation", f"median questions, {stop}, {what}",
                        float(np.median(own_counts)), float(np.median(counts)),
                        gain=median_gain(own_counts, counts), unit="questions",
                        bar=1 / 3 if exact else None, **said)  # fmt: skip
                compare("elicitation", f"recommendations beyond 5 %, {stop}, {what}",
                        sum(own_false), sum(false), unit=f"of {people} people", **said)  # fmt: skip
                compare("elicitation", f"a question, {stop}, {what}", own_seconds, seconds, **said)
    growth("elicitation", "a question of the reliable stop, 4 attributes",
           {n: _each(n) for n in (300, 1000)}, size="items", bar=0.3)  # fmt: skip


def _each(items: int) -> float:
    """CPU seconds of a question, forecasts, search and choice together."""
    spent = timed(lambda: [_ours("reliable", *_person(i, items), 0.1, i)[0] for i in range(3)],
                  1, cpu=True)  # fmt: skip
    return spent.value / sum(spent.result)


def _person(seed: int, items: int = ITEMS) -> tuple[Any, Any]:
    """Items and the hidden weights of one person."""
    rng = np.random.default_rng(seed)
    return rng.random((items, K)), rng.dirichlet(np.ones(K))


def asked(
    method: Callable[..., tuple[int, int]], flip: float, people: int
) -> list[tuple[int, bool, float]]:
    """Of every person: questions, whether what is advised is beyond the target, seconds each."""
    everyone = []
    for seed in range(people):
        values, w = _person(seed)
        spent = timed(lambda v=values, w=w, s=seed: method(v, w, flip, s), 1, cpu=True)
        n, item = spent.result
        worth = values @ w
        false = bool(worth[item] < (1 - TARGET) * worth.max())
        everyone.append((n, false, spent.value / max(1, n)))
    return everyone


def missing(package: str | None, what: str) -> bool:
    """Whether a neighbour is not installed; says so."""
    if package is None or importlib.util.find_spec(package) is not None:
        return False
    skipped("elicitation", what, f"{package} is not installed")
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
    """PairwiseGP on the items asked about, EUBO over 300 random pairs, a fixed number."""
    import torch
    from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    prefers, rng = _slips(w, flip, seed), np.random.default_rng(seed)
    table = torch.tensor(values, dtype=torch.double)
    pair, rows, said, guess = rng.choice(len(values), 2, replace=False), [], [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(PEER_QUESTIONS):
            a, b = map(int, pair)
            rows += [a, b] if prefers(values[a], values[b]) else [b, a]
            said.append([len(rows) - 2, len(rows) - 1])
            model = PairwiseGP(table[rows], torch.tensor(said))
            with suppress(Exception):  # fits fail now and then; go on with the unfitted model
                fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
            with torch.no_grad():
                guess = int(model.posterior(table).mean.squeeze(-1).argmax())
                pairs = rng.integers(len(values), size=(300, 2))
                acquisition = AnalyticExpectedUtilityOfBestOption(pref_model=model)
                pair = pairs[int(acquisition(table[torch.tensor(pairs)]).argmax())]
    return len(said), guess


def _as_aprel(values: Any, w: Any, flip: float, seed: int) -> tuple[int, int]:
    """Softmax answers of fixed temperature, mutual information over 500 random pairs."""
    prefers, rng = _slips(w, flip, seed), np.random.default_rng(seed)
    belief = np.abs(rng.normal(size=(1000, K)))
    belief /= np.linalg.norm(belief, axis=1, keepdims=True)
    said = np.zeros((0, K))
    for _ in range(PEER_QUESTIONS):
        pairs = rng.integers(len(values), size=(500, 2))
        differences = values[pairs[:, 0]] - values[pairs[:, 1]]
        p = 1 / (1 + np.exp(-BETA * belief @ differences.T))
        information = neighbours._entropy(p.mean(axis=0)) - neighbours._entropy(p).mean(axis=0)
        a, b = pairs[int(information.argmax())]
        difference = values[a] - values[b]
        sign = 1.0 if prefers(values[a], values[b]) else -1.0
        said = np.vstack([said, sign * difference])
        belief = neighbours._metropolis(belief, said, BETA, rng)
    return len(said), int((values @ belief.mean(axis=0)).argmax())


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

    name = "train tickets"
    try:
        panel = panel_of(name)
    except DataUnavailableError:
        skipped("elicitation", f"{name}, hierarchical fit", "not here, simulated people stand in")
        name, panel = "simulated people", panel_of("simulated")
    what = f"{name}, hierarchical fit"
    train, test = _split(panel, 0)
    fit = timed(lambda: train.fit_population(random_state=0), cpu=True)
    population = fit.result
    found = _predicted(population, train, test, 4)
    values, there, picked, who = found.pop("truth")
    at = np.arange(len(picked))

    def log_loss(chances: Any) -> Any:
        """Mean loss of every person: choices of one person belong together."""
        counts = np.bincount(who)
        return np.bincount(who, -np.log(chances[at, picked]))[counts > 0] / counts[counts > 0]

    growth("elicitation", what, {train.n_people: fit}, size="people", bar=20.0)
    ours, loss = log_loss(found["hierarchical"]), f"{what}: log loss after 4 own choices"
    for method in ("pooled", "ridge"):
        compare("elicitation", loss, ours, log_loss(found[method]), against=f"{method} logit",
                package="counterplay", unit="log loss")  # fmt: skip
    if missing("xlogit", what):
        return
    from xlogit import MixedLogit

    x, _, chosen = population._padded(train)
    n, m, _ = x.shape
    model, names = MixedLogit(), list(train.attributes)
    mixed = timed(
        lambda: model.fit(
            X=x.reshape(n * m, -1), y=(np.arange(m)[None] == chosen[:, None]).ravel().astype(int),
            varnames=names, alts=np.tile(np.arange(m), n), ids=np.repeat(np.arange(n), m),
            panels=np.repeat(train.who, m), randvars=dict.fromkeys(names, "n"), n_draws=500,
            verbose=0,
        ),
        cpu=True,
    )  # fmt: skip
    k = len(names)
    rng = np.random.default_rng(0)
    tastes = model.coeff_[:k] + np.abs(model.coeff_[k : 2 * k]) * rng.standard_normal((500, k))
    tables = [_chances(values, there, np.tile(taste, (len(values), 1))) for taste in tastes]
    theirs = log_loss(np.mean(tables, axis=0))
    compare("elicitation", f"{what}: time of the fit", fit, mixed, against="MixedLogit",
            package="xlogit", bar=0.5)  # fmt: skip
    compare("elicitation", loss, ours, theirs, against="MixedLogit", package="xlogit",
            unit="log loss", bar=1.0, note="theirs has no update by own choices")  # fmt: skip


def guard() -> None:
    """A round of the live guard against river's Exp3."""
    for models in (10, 100):
        what = f"a round of the live guard, {models} models"
        ours = guard_round(models)
        if importlib.util.find_spec("river") is None:
            growth("tradeoff", "a round of the live guard", {models: ours}, size="models")
            skipped("tradeoff", what, "river is not installed")
        else:
            compare("tradeoff", what, ours, exp3_round(models), against="Exp3", package="river",
                    bar=1.0 if models == 10 else None)  # fmt: skip


def streams(seeds: int = 5) -> None:
    """Largest harm above the budget on real streams, beside the best of river's bandits."""
    from counterplay.studies.tradeoff.live import GUARD, RIVER, _cell

    for stream in ("bank", "Taiwan", "GMSC", "Elec2"):
        what = f"{stream}: largest harm above the budget, mean of {seeds} seeds"
        if importlib.util.find_spec("river") is None:
            skipped("tradeoff", what, "river is not installed")
            continue

        def harm(policy: str, stream: str = stream) -> list[float]:
            cell = {"stream": stream, "policy": policy, "replicate": 0}
            return [_cell(cell, seed)["largest"] for seed in range(seeds)]

        try:
            found = {policy: harm(policy) for policy in (GUARD, *RIVER)}
        except DataUnavailableError as error:
            skipped(
                "tradeoff", what, f"{error!s:.100}".partition(" is neither ")[0] + " is not here"
            )
            continue
        best = min(RIVER, key=lambda policy: np.mean(found[policy]))
        compare("tradeoff", what, found[GUARD], found[best], against=f"{best}, best of four",
                package="river", unit="harm", bar=2.0 if stream == "Taiwan" else None)  # fmt: skip


def guard_round(models: int, rounds: int = 5000) -> Times:
    """A decision and an outcome of the live guard."""
    budget = HarmBudget(0.1, 5.0)

    def run() -> None:
        live: Any = ChampionChallenger(
            n_models=models, horizon=rounds, budget=budget, feedback="live", random_state=0
        )
        for _ in range(rounds):
            live.observe(live.act().id, primary=0.2, secondary=0.05)

    return timed(run, cpu=True).each(rounds)


def exp3_round(models: int, rounds: int = 5000) -> Times:
    """A pull and an update of river's Exp3."""
    from river import bandit

    policy, arms = bandit.Exp3(gamma=0.1, seed=0), list(range(models))

    def run() -> None:
        for _ in range(rounds):
            policy.update(policy.pull(arms), 0.8)

    return timed(run, cpu=True).each(rounds)


if __name__ == "__main__":
    main()
