"""Elicitation side by side with the alternatives; ratios from one run.

1. Questions to 1 % regret and time per question, 1,000 items with four objectives, the same users
   for everyone, drawn from four priors that nobody is told: adaptive polytope (ours), a Bayesian
   Bradley-Terry learner with particles and mutual information (written here, as APReL and similar
   packages do it), random pairs, and BoTorch's PairwiseGP with EUBO where it is installed.
2. Planning 100 directions at once against one by one, with the library and with sparse products.
3. A policy as k+1 trajectories: expand-and-compress and flow decomposition in units of a plan.

Times are CPU seconds of this process, so that ratios survive a busy machine; use one thread per
library (OMP_NUM_THREADS=1). Large batches of plans use several threads, whose times are added up.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import numpy as np
from ledger import compare, growth, in_turns, median_gain, skipped, timed

from counterplay.elicitation import (
    LinearPreferenceUser,
    MultiObjectiveMDP,
    PolytopeElicitor,
    expand_and_compress,
    instances,
    plan,
)
from counterplay.elicitation.lab import flow_decomposition, policy_flow

TARGET, LIMIT = 0.01, 60


def loss(worth: np.ndarray, row: int) -> float:
    return 1 - worth[row] / worth.max()


def ours(items: np.ndarray, w: np.ndarray, seed: int) -> tuple[int, float, int]:
    """Questions to 1 %, seconds per question, questions to the certificate."""
    worth, user = items @ w, LinearPreferenceUser(w, 0.0)
    elicitor = PolytopeElicitor(items, target_regret=TARGET, random_state=seed)
    reached, spent = None, 0.0
    while True:
        start = time.process_time()
        done = elicitor.done
        spent += time.process_time() - start
        if reached is None and loss(worth, elicitor.best_guess()) <= TARGET:
            reached = len(elicitor.events)
        if done:
            break
        query = elicitor.ask()  # computed above, when done was asked for
        answer = user.compare(query.first, query.second)
        start = time.process_time()
        elicitor.tell(answer)
        spent += time.process_time() - start
    asked = len(elicitor.events)
    return asked if reached is None else reached, spent / max(asked, 1), asked


def bradley_terry_particles(items: np.ndarray, w: np.ndarray, seed: int) -> tuple[int, float, int]:
    """Bayesian logistic preferences: 1,000 particles in the positive unit ball, Metropolis steps,
    mutual information over 500 random pairs; the item with the best mean value is recommended."""
    rng = np.random.default_rng(seed)
    worth, k, beta = items @ w, items.shape[1], 20.0
    belief = np.abs(rng.normal(size=(1000, k)))
    belief /= np.linalg.norm(belief, axis=1, keepdims=True)
    differences = np.zeros((0, k))
    spent, asked = 0.0, 0
    while True:
        start = time.process_time()
        guess = int((items @ belief.mean(axis=0)).argmax())
        spent += time.process_time() - start
        if loss(worth, guess) <= TARGET or asked == LIMIT:
            return asked, spent / max(asked, 1), -1
        start = time.process_time()
        pairs = rng.integers(len(items), size=(500, 2))
        candidates = items[pairs[:, 0]] - items[pairs[:, 1]]
        p = 1 / (1 + np.exp(-beta * belief @ candidates.T))
        mean = p.mean(axis=0)
        information = _entropy(mean) - _entropy(p).mean(axis=0)
        chosen = candidates[int(information.argmax())]
        answer = 1.0 if chosen @ w > 0 else -1.0
        differences = np.vstack([differences, answer * chosen])
        belief = _metropolis(belief, differences, beta, rng)
        spent += time.process_time() - start
        asked += 1


def _entropy(p: np.ndarray) -> np.ndarray:
    q = np.clip(p, 1e-12, 1 - 1e-12)
    return -(q * np.log(q) + (1 - q) * np.log(1 - q))


def _metropolis(
    belief: np.ndarray, differences: np.ndarray, beta: float, rng: np.random.Generator
) -> np.ndarray:
    def likelihood(points: np.ndarray) -> np.ndarray:
        inside = (points >= 0).all(axis=1) & (np.linalg.norm(points, axis=1) <= 1 + 1e-9)
        value = -np.logaddexp(0, -beta * points @ differences.T).sum(axis=1)
        return np.where(inside, value, -np.inf)

    now = likelihood(belief)
    for step in np.geomspace(0.3, 0.02, 30):
        proposal = belief + step * rng.normal(size=belief.shape)
        then = likelihood(proposal)
        accept = np.log(rng.random(len(belief))) < then - now
        belief = np.where(accept[:, None], proposal, belief)
        now = np.where(accept, then, now)
    return belief


def random_pairs(items: np.ndarray, w: np.ndarray, seed: int) -> tuple[int, float, int]:
    """The same belief with random questions."""
    rng = np.random.default_rng(seed)
    worth, k = items @ w, items.shape[1]
    belief = rng.dirichlet(np.ones(k), size=20_000)
    for asked in range(LIMIT + 1):
        mean = belief.mean(axis=0)
        if loss(worth, int((items @ mean).argmax())) <= TARGET or asked == LIMIT:
            return asked, 0.0, -1
        i, j = rng.integers(len(items), size=2)
        difference = items[i] - items[j]
        kept = belief[np.sign(belief @ difference) == np.sign(difference @ w)]
        belief = kept if len(kept) > 20 else belief
    return LIMIT, 0.0, -1


def botorch_eubo(items: np.ndarray, w: np.ndarray, seed: int) -> tuple[int, float, int]:
    """PairwiseGP on the items asked about, EUBO over 300 random pairs."""
    import torch
    from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    worth = items @ w
    table = torch.tensor(items, dtype=torch.double)
    pair = rng.integers(len(items), size=2)
    rows, comparisons = [], []
    spent, asked = 0.0, 0
    while asked < 30:
        i, j = int(pair[0]), int(pair[1])
        if worth[j] > worth[i]:
            i, j = j, i
        rows += [i, j]
        comparisons.append([len(rows) - 2, len(rows) - 1])
        asked += 1
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PairwiseGP(table[rows], torch.tensor(comparisons))
            mll = PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
            with suppress(Exception):  # fits fail now and then; go on with the unfitted model
                fit_gpytorch_mll(mll)
            with torch.no_grad():
                guess = int(model.posterior(table).mean.squeeze(-1).argmax())
                acquisition = AnalyticExpectedUtilityOfBestOption(pref_model=model)
                pairs = rng.integers(len(items), size=(300, 2))
                values = acquisition(table[torch.tensor(pairs)])
            pair = pairs[int(values.argmax())]
        spent += time.process_time() - start
        if loss(worth, guess) <= TARGET:
            break
    return asked, spent / asked, -1


PRIORS: dict[str, tuple[float, ...]] = {
    "uniform": (1.0, 1.0, 1.0, 1.0),
    "sparse": (0.3, 0.3, 0.3, 0.3),
    "skewed": (4.0, 2.0, 1.0, 0.5),
    "balanced": (10.0, 10.0, 10.0, 10.0),
}


def person(kind: str, prior: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Items and hidden weights of one user."""
    rng = np.random.default_rng(seed)
    items = rng.random((1000, 4))
    if kind != "scattered items":
        items = np.abs(rng.normal(size=(1000, 4)))
        items /= np.linalg.norm(items, axis=1, keepdims=True)
    return items, rng.dirichlet(PRIORS[prior])


def compare_questions(users: int = 400, peer_users: int = 15, botorch_users: int = 5) -> None:
    """``users`` per prior for our method, fewer for the slow ones, always the same first ones."""
    peers: dict[str, tuple[Callable[..., tuple[int, float, int]], int]] = {
        "Bradley-Terry particles": (bradley_terry_particles, peer_users),
        "random pairs": (random_pairs, users),
    }
    if find_spec("botorch") is not None:
        peers["PairwiseGP+EUBO"] = (botorch_eubo, botorch_users)
    else:
        skipped("elicitation", "questions to 1 % regret", "botorch is not installed")
    ours(np.random.default_rng(0).random((50, 4)), np.ones(4) / 4, 0)  # compile
    for kind in ("all items undominated", "scattered items"):
        told = asked(ours, kind, users)
        own, own_seconds = counts(told), seconds(told)
        certified = float(np.median([record[2] for record in told]))
        what = f"{kind}, 1,000 items, 4 objectives"
        for name, (method, n) in peers.items():
            everyone = asked(method, kind, n)
            theirs, their_seconds = counts(everyone), seconds(everyone)
            package = "botorch" if method is botorch_eubo else "numpy"
            compare("elicitation", f"median questions to 1 % regret, {what}", np.median(own),
                    np.median(theirs), gain=median_gain(own, theirs), against=name,
                    package=package, unit="questions",
                    note=f"{len(told)} and {len(everyone)} users, ours certified after "
                    f"{certified:g}; at most 5 for {at_most_five(told)} and "
                    f"{at_most_five(everyone)}; by prior {by_prior(told)} and "
                    f"{by_prior(everyone)}")  # fmt: skip
            if their_seconds and np.median(their_seconds):
                compare("elicitation", f"time per question, {what}", np.median(own_seconds),
                        np.median(their_seconds), gain=median_gain(own_seconds, their_seconds),
                        against=name, package=package)  # fmt: skip


def asked(method: Callable[..., Any], kind: str, n: int) -> list[Any]:
    """The records of ``n`` users per prior."""
    return [method(*person(kind, prior, seed), seed) for prior in PRIORS for seed in range(n)]


def counts(everyone: list[Any]) -> list[int]:
    """Questions of every user."""
    return [record[0] for record in everyone]


def seconds(everyone: list[Any]) -> list[float]:
    """Seconds per question of every user who was asked one."""
    return [record[1] for record in everyone if record[0] > 0]


def by_prior(everyone: list[Any]) -> str:
    groups = np.array_split([record[0] for record in everyone], len(PRIORS))
    return ", ".join(f"{prior} {np.median(group):g}" for prior, group in zip(PRIORS, groups))


def at_most_five(everyone: list[Any]) -> str:
    return f"{np.mean([record[0] <= 5 for record in everyone]):.0%}"


def plain_plan(mdp: MultiObjectiveMDP, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Policy and values of one direction, a sparse product per step: what one writes oneself."""
    n, a = mdp.n_states, mdp.n_actions
    gain = np.where(mdp.action_mask, mdp.R @ w, -np.inf)
    later = np.zeros(n)
    policy = np.zeros((mdp.H, n), dtype=np.int64)
    for t in range(mdp.H - 1, -1, -1):
        worth = gain + (mdp.P @ later).reshape(n, a)
        policy[t] = worth.argmax(axis=1)
        later = worth[np.arange(n), policy[t]]
    state, visits = np.zeros(n), np.zeros((n, a))
    state[mdp.s0] = 1.0
    for actions in policy:
        used = np.zeros((n, a))
        used[np.arange(n), actions] = state
        visits += used
        state = used.ravel() @ mdp.P
    return policy, visits.ravel() @ mdp.R.reshape(n * a, -1)


def compare_planning() -> None:
    """Medians of CPU time: 100 directions, 5 successors per action, 5 objectives."""
    curve = {}
    for n, horizon, repeats in (
        (20, 20, 15),
        (50, 20, 15),
        (100, 50, 9),
        (200, 50, 9),
        (500, 50, 5),
        (1000, 50, 5),
    ):
        mdp = instances.sparse_mdp(n_states=n, horizon=horizon, successors=5)
        directions = np.random.default_rng(0).normal(size=(100, 5))
        found = plan(mdp, directions)
        assert np.allclose(plain_plan(mdp, directions[0])[1], found.values[0])

        def together(m=mdp, d=directions) -> Any:
            return plan(m, d)

        alone = in_turns(
            together,
            lambda m=mdp, d=directions: [plan(m, row[None]) for row in d],
            repeats,
            how="median",
        )
        plain = in_turns(
            together, lambda m=mdp, d=directions: [plain_plan(m, r) for r in d], 3, how="median"
        )
        curve[n] = alone[0]
        what = f"100 plans together, {n} states, horizon {horizon}"
        compare("elicitation", what, *alone, against="one plan after the other",
                package="counterplay")  # fmt: skip
        compare("elicitation", what, *plain, against="sparse products by hand", package="scipy")
    growth("elicitation", "100 plans together", curve, size="states",
           note="horizon 20 up to 50 states, then 50")  # fmt: skip


def compare_trajectories() -> None:
    """A policy as k+1 trajectories: 200 states, 5 objectives, horizon 50."""
    for successors in (5, 10, 30):
        mdp = instances.sparse_mdp(n_states=200, horizon=50, successors=successors)
        directions = np.random.default_rng(0).random((12, 5))
        policy = plan(mdp, directions).policies[0]
        expand_and_compress(mdp, policy)
        paths = flow_decomposition(policy_flow(mdp, policy))
        planning = timed(lambda m=mdp, d=directions: plan(m, d), 15, cpu=True)
        expand = timed(lambda m=mdp, p=policy: expand_and_compress(m, p), 15, cpu=True)
        flow = timed(
            lambda m=mdp, p=policy: flow_decomposition(policy_flow(m, p)).compressed(), 7, cpu=True
        )
        what = f"a policy as 6 trajectories, {successors} successors"
        compare("elicitation", what, expand, planning, against="planning 12 directions",
                package="counterplay")  # fmt: skip
        compare("elicitation", what, expand, flow, against="flow decomposition",
                package="counterplay", note=f"{len(paths)} paths")  # fmt: skip


def main() -> None:
    warnings.filterwarnings("ignore", category=UserWarning)
    compare_questions()
    compare_planning()
    compare_trajectories()


if __name__ == "__main__":
    main()
