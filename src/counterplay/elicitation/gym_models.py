"""Decision processes from mo-gymnasium environments with finitely many states.

Deterministic environments are enumerated breadth first. Stochastic ones are sampled, with a bound
on the error of every policy's value that holds with the chosen confidence.
Source: docs/theory/08-elicitation.md, "Proposition 8.Q: processes from samples" (simulation lemma,
Kearns and Singh 2002).
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_open_fraction,
    check_positive_int,
)
from counterplay.elicitation.mdp import MultiObjectiveMDP, add_do_nothing
from counterplay.errors import InvalidInputError, MissingDependencyError

_PLAIN = (bool, int, float, complex, str, bytes, np.ndarray, np.generic)
_KNOWN_OBJECTIVES = {
    "deep-sea-treasure": ("treasure", "time"),
    "fruit-tree": ("protein", "carbs", "fats", "vitamins", "minerals", "water"),
    "resource-gathering": ("enemy", "gold", "gem"),
}


def read_environment(
    env: Any,
    horizon: int,
    *,
    costs: Sequence[int | str],
    samples: int | None,
    confidence: float,
    max_states: int,
    objective_names: Sequence[str] | None,
    action_names: Sequence[str] | None,
    random_state: RandomState,
    **env_options: Any,
) -> MultiObjectiveMDP:
    """Return the process of an environment; see :meth:`MultiObjectiveMDP.from_gymnasium`."""
    steps = check_positive_int(horizon, "horizon")
    environment, name = _open(env, env_options)
    explorer = _Explorer(
        environment,
        horizon=steps,
        samples=0 if samples is None else check_positive_int(samples, "samples"),
        max_states=check_positive_int(max_states, "max_states"),
        rng=generator(random_state),
    )
    explorer.explore()
    names = tuple(objective_names or _default_names(name, explorer.n_objectives))
    process = _build(explorer, steps, costs, names, action_names)
    if not explorer.random_pairs:
        return process
    error = _value_error(explorer, process, check_open_fraction(confidence, "confidence"))
    return replace(process, value_error=error, costs=(), rescale=False)


def _open(env: Any, options: dict[str, Any]) -> tuple[Any, str]:
    if isinstance(env, str):
        try:
            from mo_gymnasium.utils import make
        except ImportError:
            raise MissingDependencyError.for_extra("mo-gymnasium", "gym") from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the precision of spaces we do not use
            env = make(env, **options)
    base = getattr(env, "unwrapped", env)
    spec = getattr(env, "spec", None)
    if not hasattr(base, "step") or not hasattr(getattr(base, "action_space", None), "n"):
        raise InvalidInputError(
            "the environment must have step() and a discrete action space, got "
            f"{type(base).__name__}"
        )
    return base, "" if spec is None else str(spec.id)


def _default_names(env_name: str, k: int) -> tuple[str, ...]:
    for prefix, names in _KNOWN_OBJECTIVES.items():
        if env_name.startswith(prefix) and len(names) == k:
            return names
    return tuple(f"objective {j}" for j in range(k))


@dataclass
class _Outcomes:
    """What a state-action pair led to: successors with counts, and the mean reward."""

    counts: dict[int, int]
    reward: FloatArray
    spread: FloatArray
    """Range of the rewards seen, per objective."""
    n: int


@dataclass
class _Explorer:
    """Breadth-first search over the states of an environment, by saving and restoring it."""

    env: Any
    horizon: int
    samples: int
    max_states: int
    rng: np.random.Generator
    keys: list[Hashable] = field(default_factory=list)
    ended: list[bool] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    """Fewest steps to each state; where the horizon ends nothing is tried any more."""
    outcomes: dict[tuple[int, int], _Outcomes] = field(default_factory=dict)
    random_pairs: list[tuple[int, int]] = field(default_factory=list)
    n_objectives: int = 0
    _numbers: dict[tuple[Hashable, bool], int] = field(default_factory=dict)
    _snapshots: list[dict[str, Any]] = field(default_factory=list)

    @property
    def n_actions(self) -> int:
        return int(self.env.action_space.n)

    def explore(self) -> None:
        """Visit every state that can be reached within the horizon."""
        observation, _ = self.env.reset(seed=int(self.rng.integers(2**31)))
        self._number(observation, False, 0)
        position = 0
        while position < len(self.keys):
            if not self.last(position):
                for action in range(self.n_actions):
                    self._try(position, action)
            self._snapshots[position] = {}  # not needed any more
            position += 1

    def last(self, state: int) -> bool:
        """Whether nothing is decided in a state: the episode or the horizon has ended."""
        return self.ended[state] or self.depths[state] >= self.horizon

    def _number(self, observation: Any, ended: bool, depth: int) -> int:
        key = (_key(observation), ended)
        if key not in self._numbers:
            if len(self._numbers) >= self.max_states:
                raise InvalidInputError(
                    f"the environment has more than {self.max_states} states; raise max_states, "
                    "or use a smaller environment"
                )
            self._numbers[key] = len(self.keys)
            self.keys.append(key[0])
            self.ended.append(ended)
            self.depths.append(depth)
            self._snapshots.append({} if self.last(-1) else _save(self.env))
        return self._numbers[key]

    def _try(self, state: int, action: int) -> None:
        counts: dict[int, int] = {}
        rewards: list[FloatArray] = []
        repeats = 1
        while len(rewards) < repeats:
            _restore(self.env, self._snapshots[state])  # but not its random stream, which goes on
            before = None if rewards else _random_state(self.env)
            observation, reward, terminated, _, _ = self.env.step(action)
            if before is not None and _random_state(self.env) != before:
                if not self.samples:
                    raise InvalidInputError(
                        f"action {action} in state {self.keys[state]} uses randomness, so the "
                        "environment cannot be enumerated; pass samples=2000 or more"
                    )
                self.random_pairs.append((state, action))
                repeats = self.samples
            successor = self._number(observation, bool(terminated), self.depths[state] + 1)
            counts[successor] = counts.get(successor, 0) + 1
            rewards.append(np.atleast_1d(np.asarray(reward, dtype=np.float64)))
        table = np.stack(rewards)
        self.n_objectives = table.shape[1]
        self.outcomes[state, action] = _Outcomes(
            counts, table.mean(axis=0), np.ptp(table, axis=0), len(rewards)
        )


def _build(
    explorer: _Explorer,
    horizon: int,
    costs: Sequence[int | str],
    names: tuple[str, ...],
    action_names: Sequence[str] | None,
) -> MultiObjectiveMDP:
    n, a = len(explorer.keys), explorer.n_actions
    mask = np.ones((n, a), dtype=bool)
    last = np.flatnonzero([explorer.last(state) for state in range(n)])
    mask[last, 1:] = False  # after the end there is only "stay"
    rewards = np.zeros((n, a, explorer.n_objectives))
    rows, columns, data = [], [], []
    for end in last.tolist():
        rows.append(end * a)
        columns.append(end)
        data.append(1.0)
    for (state, action), seen in explorer.outcomes.items():
        rewards[state, action] = seen.reward
        for successor, count in seen.counts.items():
            rows.append(state * a + action)
            columns.append(successor)
            data.append(count / seen.n)
    _check_signs(rewards, costs, names)
    process = MultiObjectiveMDP(
        sparse.csr_array((data, (rows, columns)), shape=(n * a, n)),
        rewards,
        H=horizon,
        action_mask=mask,
        costs=costs,
        rescale=True,
        objective_names=names,
        state_names=tuple(
            f"{key} end" if ended else f"{key}"
            for key, ended in zip(map(_told, explorer.keys), explorer.ended)
        ),
        action_names=None if action_names is None else tuple(action_names),
    )
    return add_do_nothing(process)


def _check_signs(rewards: FloatArray, costs: Sequence[int | str], names: tuple[str, ...]) -> None:
    listed = {names.index(c) if isinstance(c, str) and c in names else c for c in costs}
    for j, name in enumerate(names):
        if j not in listed and (rewards[..., j] < 0).any():
            raise InvalidInputError(
                f"objective {j} ({name}) pays as little as {rewards[..., j].min():g}; "
                f"list it in costs=[{j}] to turn penalties into benefits"
            )


def _value_error(explorer: _Explorer, process: MultiObjectiveMDP, confidence: float) -> float:
    """Largest error of any policy's value in any objective (simulation lemma).

    Each random pair has an L1 error of its transition row and an error of its mean reward; the
    worst policy for their sum is found by dynamic programming on the estimated process.
    """
    pairs = explorer.random_pairs
    outcomes = max(2, *(len(explorer.outcomes[pair].counts) for pair in pairs))
    failure = (1 - confidence) / (2 * len(pairs))
    k = explorer.n_objectives
    row_error = np.zeros((process.n_states, process.n_actions))
    reward_error = np.zeros_like(row_error)
    for s, a in pairs:
        seen = explorer.outcomes[s, a]
        row_error[s, a] = min(2.0, np.sqrt(2 * np.log((2.0**outcomes - 2) / failure) / seen.n))
        spread = np.abs(seen.spread / process.scales).max()
        reward_error[s, a] = min(1.0, spread * np.sqrt(np.log(2 * k / failure) / (2 * seen.n)))
    worst = np.zeros(process.n_states)
    for t in range(process.H - 1, -1, -1):
        loss = row_error / 2 * (process.H - t - 1) + reward_error
        later = (process.P @ worst).reshape(process.n_states, process.n_actions)
        worst = np.where(process.action_mask, loss + later, -np.inf).max(axis=1)
    return float(min(worst[process.s0], process.H))


def _key(observation: Any) -> Hashable:
    if isinstance(observation, dict):
        return tuple((name, _key(observation[name])) for name in sorted(observation))
    array = np.asarray(observation)
    return tuple(np.round(array.astype(np.float64), 9).ravel().tolist())


def _told(key: Hashable) -> str:
    def plain(value: Any) -> str:
        if isinstance(value, tuple):
            return "(" + ", ".join(plain(item) for item in value) + ")"
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

    return plain(key)


def _copyable(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_copyable(item) for item in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return all(_copyable(item) for item in value)
    return value is None or isinstance(value, _PLAIN)


def _save(env: Any) -> dict[str, Any]:
    """Copy the plain attributes of an environment; deepcopy() would restart many of them."""
    return {name: _copied(value) for name, value in vars(env).items() if _copyable(value)}


def _restore(env: Any, snapshot: dict[str, Any]) -> None:
    for name, value in snapshot.items():
        setattr(env, name, _copied(value))


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return copy.deepcopy(value) if isinstance(value, list | dict | set | tuple) else value


def _random_state(env: Any) -> tuple[Any, ...]:
    """State of every random stream a step may use, to notice that it did."""
    own = getattr(env, "_np_random", None)
    legacy: Any = np.random.get_state()  # noqa: NPY002  # environments may use the global stream
    return (
        None if own is None else str(own.bit_generator.state),
        legacy[2],
        legacy[1][:4].tolist(),
        random.getstate()[1][-1],
    )
