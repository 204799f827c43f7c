"""Worked examples and hard instances of the chapter, with the states they are played on.

Source: Propositions F.1, 7.1 and 7.2, Algorithm F.2, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.principal.games import FiniteGame, LinearContractGame
from counterplay.principal.mechanisms import ScriptedMechanism
from counterplay.principal.persuasion import PersuasionGame


@checked(arrays=True)
@dataclass(frozen=True)
class ContractInstance:
    """A game of linear contracts, its benchmark shares, and a state sequence."""

    game: LinearContractGame
    benchmark: tuple[float, ...]
    states: IntArray


@checked
@dataclass(frozen=True)
class OracleBug:
    """An instance on which the printed linear-contract oracle breaks its own theorem."""

    game: LinearContractGame
    benchmark: tuple[float, ...]
    beta: float
    delta: float


@checked
def no_stable_policy_instance(scale: float = 0.5) -> FiniteGame:
    """Two contracts, one an exact tie, the other too generous: no optimal stable policy exists.

    Values (1, 2) and costs (1/4, 1/2), times ``scale``; contracts 1/4 and 1/2 only. At the legal
    scale 1/2, nothing is stable and c-optimal for gamma < 3/8 and c < 1/4 (the printed ranges
    belong to scale 1, whose utilities leave [-1, 1]).

    Examples
    --------
    >>> no_stable_policy_instance().V[:, 1, 0].tolist()
    [0.75, 0.5]
    """
    factor = check_real(scale, "scale", low=0.0, open_low=True)
    values = np.array([1.0, 2.0]) * factor
    costs = np.array([0.25, 0.5]) * factor
    shares = np.array([0.25, 0.5])
    U = shares[:, None, None] * values[None, :, None] - costs[None, :, None]
    V = (1 - shares)[:, None, None] * values[None, :, None]
    return FiniteGame(U, V)


@checked
def secret_information_instance(
    rounds: int, first_state: Literal["M", "H"] = "M", *, random_state: RandomState = None
) -> ContractInstance:
    """States M and H are a fair coin after round 1; work succeeds only on M and costs 1/2.

    Against :class:`SecretInfoAgent` every mechanism has regret of at least 1/16 (first state M) or
    1/20 (H), although his swap regret and negative regret vanish. Use the worse first state for
    the mechanism: M unless its first move is (0.5, work) with probability above 1/2. Benchmarks
    are the contracts 0.5 and 0.6 with the fixed recommendation "work".

    Examples
    --------
    >>> secret_information_instance(1000, "H", random_state=0).states[:1].tolist()
    [1]
    """
    check_size(check_positive_int(rounds, "rounds"), 10**7, "rounds")
    check_choice(first_state, "first_state", ("M", "H"))
    states = generator(random_state).integers(0, 2, size=rounds)
    states[0] = 0 if first_state == "M" else 1
    game = LinearContractGame(
        values=[[0.0, 0.0], [1.0, 0.0]],
        costs=[0.0, 0.5],
        action_names=("shirk", "work"),
        state_names=("M", "H"),
    )
    states.setflags(write=False)
    return ContractInstance(game, (0.5, 0.6), states)


@checked
def reactive_mechanism(game: LinearContractGame) -> ScriptedMechanism:
    """Offer (0.5, work) in round 1, then 0.5 after a first state M and 0.6 after H.

    It defeats the printed Algorithm L, which forgets to check round 1 (Proposition 7.1, repaired).

    Examples
    --------
    >>> from counterplay.principal import FollowRecommendation, RepeatedContract, play
    >>> game = secret_information_instance(10, "H", random_state=0).game
    >>> mechanism = reactive_mechanism(game)
    >>> agent = FollowRecommendation()
    >>> repeated = RepeatedContract(game, agent, [1, 0, 1], fixed_recommendation=1)
    >>> play(mechanism, repeated)["p_idx"].tolist()
    [0, 1, 1]
    """
    return ScriptedMechanism(game, (0.5, 0.6), (0.5, 0.6), _react)


def _react(past: IntArray) -> tuple[int, int]:
    return (0, 1) if past.size == 0 or past[0] == 0 else (1, 1)


@checked
def near_tie_contract(
    rounds: int = 1000, *, step: float = 0.05, random_state: RandomState = None
) -> ContractInstance:
    """Shirk or work on a fair coin; the best contract 1/2 is an exact tie (ours).

    Whoever offers it trusts the Agent to break ties kindly; 0.55 would have been safe.

    Examples
    --------
    >>> len(near_tie_contract(10, random_state=0).benchmark)
    21
    """
    check_size(check_positive_int(rounds, "rounds"), 10**7, "rounds")
    width = check_real(step, "step", low=0.0, high=1.0, open_low=True)
    game = LinearContractGame(
        values=[[0.0, 0.0], [0.0, 1.0]],
        costs=[0.0, 0.25],
        action_names=("shirk", "work"),
        state_names=("bad", "good"),
    )
    shares = np.linspace(0.0, 1.0, round(1 / width) + 1)
    states = generator(random_state).integers(0, 2, size=rounds)
    states.setflags(write=False)
    return ContractInstance(game, tuple(shares.tolist()), states)


@checked
def oracle_bug_instances() -> tuple[OracleBug, OracleBug]:
    """Two instances on which the printed linear-contract oracle loses more than it promises (ours).

    In both, work yields 1 at cost 1/2 and beta = 0.1. (i) the tempting contract 0.48 passes the
    one-sided test although the Agent shirks there. (ii) at 0.475 work is exactly at the edge of
    the ball: closed ball and closed separation contradict each other.

    Examples
    --------
    >>> [bug.benchmark for bug in oracle_bug_instances()]
    [(0.48,), (0.475,)]
    """
    game = LinearContractGame(values=[[0.0], [1.0]], costs=[0.0, 0.5])
    return OracleBug(game, (0.48,), 0.1, 0.02), OracleBug(game, (0.475,), 0.1, 0.025)


@checked
def random_contract_game(
    n_actions: int = 4, n_states: int = 4, *, random_state: RandomState = None
) -> LinearContractGame:
    """Random linear-contract game: costlier actions tend to be worth more, costs are apart.

    Examples
    --------
    >>> random_contract_game(3, 2, random_state=0).values.shape
    (3, 2)
    """
    n, m = check_positive_int(n_actions, "n_actions"), check_positive_int(n_states, "n_states")
    check_size(n * m, 10**6, "actions times states")
    rng = generator(random_state)
    costs: FloatArray = np.linspace(0.0, 0.35, n) + rng.uniform(0.0, 0.1 / n, size=n)
    effort = np.linspace(0.0, 1.0, n) ** rng.uniform(0.5, 1.0)
    noise = rng.uniform(0.6, 1.0, size=(n, m)) * rng.uniform(0.5, 1.0, size=m)
    return LinearContractGame(np.clip(effort[:, None] * noise, 0.0, 1.0), costs)


@checked
def prosecutor_game() -> PersuasionGame:
    """The prosecutor and the judge: convict only if guilt is at least even.

    State 1 is guilty. At prior 0.3 the prosecutor gets convictions with probability 0.6.

    Examples
    --------
    >>> prosecutor_game().strategy_names
    ('Acquit', 'Convict')
    """
    return PersuasionGame(
        u=[[1.0, 0.0], [0.0, 1.0]], v=[0.0, 1.0], strategy_names=("Acquit", "Convict")
    )


@checked
def random_persuasion_game(n: int = 4, *, random_state: RandomState = None) -> PersuasionGame:
    """Random binary persuasion game in which every strategy is best on some interval.

    Interval ends and slopes are drawn first, then the Agent's lines are laid on them.

    Examples
    --------
    >>> random_persuasion_game(3, random_state=0).u.shape
    (3, 2)
    """
    count = check_positive_int(n, "n")
    check_size(count, 10**5, "strategies")
    rng = generator(random_state)
    edges = np.cumsum(rng.uniform(0.2, 1.0, size=count))[:-1]
    edges = edges / (edges[-1] + rng.uniform(0.2, 1.0)) if count > 1 else edges
    slopes = np.cumsum(rng.uniform(0.2, 1.0, size=count))
    heights = np.zeros(count)
    for i in range(1, count):
        heights[i] = heights[i - 1] - (slopes[i] - slopes[i - 1]) * edges[i - 1]
    u = np.stack([heights, heights + slopes], axis=1)
    u = (u - u.min()) / max(float(np.ptp(u)), 1e-12)
    order = rng.permutation(count)
    return PersuasionGame(u[order], rng.uniform(0.0, 1.0, size=count))
