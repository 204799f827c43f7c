"""Multi-objective Markov decision processes with a finite horizon, sparse and validated.

Every reward is a vector with one entry in [0, 1] per objective. Planning, evaluation and the
trajectory sets all work on the one sparse matrix stored here.
Source: docs/theory/08-elicitation.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    array_fault,
    check_float_array,
    check_int,
)
from counterplay.elicitation.mdp_input import (
    ROW_SUM_TOLERANCE,
    Transitions,
    check_rewards,
    check_transition_rows,
    objective_indices,
    read_rewards,
    read_transitions,
    to_benefits,
)
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import networkx as nx


@checked
@dataclass(frozen=True, eq=False)
class MultiObjectiveMDP:
    """A finite-horizon decision process whose reward has one entry per objective.

    Use it for route choice, treatment plans, games or robots where several goals compete and
    the weights of one particular person are unknown.

    Parameters
    ----------
    P:
        Transition probabilities: a dense array (S, A, S), one sparse array (S*A, S) with row
        ``s*A + a``, a list of A sparse (S, S) matrices, or a function ``P(s, a)`` that returns
        a vector or a dict ``{successor: probability}`` (it is enumerated once).
    R:
        Rewards (S, A, k) with entries in [0, 1], or a function ``R(s, a)`` (enumerated once;
        then give ``action_mask``, whose shape says how many states and actions there are).
    s0:
        Initial state.
    H:
        Horizon: the number of decisions, at least one.
    action_mask:
        Boolean (S, A): which actions are available. All, if not given.
    do_nothing:
        The action that is available in ``s0`` only, loops there and pays nothing. It is found
        when not named; :func:`add_do_nothing` appends one.
    costs:
        Objectives whose entries are costs (or penalties, if none is positive). Each becomes the
        benefit ``1 - cost / largest cost`` per step, so doing nothing counts like the largest
        cost in every step.
    rescale:
        Divide each objective by its largest entry, which ``scales`` remembers. Nothing is ever
        shifted: a shift would change preferences relative to doing nothing.
    objective_names:
        Words for people, one per objective.
    state_names:
        Words for people, one per state.
    action_names:
        Words for people, one per action.
    value_error:
        Largest error of any policy's value in any objective when ``P`` was estimated from
        samples (see :meth:`from_gymnasium`); zero for a known process.
    scales:
        What each objective was divided by; filled in by ``rescale``.
    cost_objectives:
        Objectives that were costs; filled in by ``costs``.

    Examples
    --------
    A process with one step and two actions, safe or fast; the third action is "do nothing":

    >>> import numpy as np
    >>> from counterplay.elicitation import MultiObjectiveMDP, add_do_nothing, plan
    >>> mdp = add_do_nothing(MultiObjectiveMDP(np.ones((1, 2, 1)), [[[0.9, 0.1], [0.2, 1.0]]], H=1))
    >>> plan(mdp, [[1.0, 0.5]]).values.round(2).tolist()
    [[0.9, 0.1]]

    References
    ----------
    docs/theory/08-elicitation.md, "Setting".
    """

    P: Transitions
    R: Any
    s0: int = 0
    H: int = 1
    action_mask: Any = None
    do_nothing: int | None = None
    costs: InitVar[Sequence[int | str]] = ()
    rescale: InitVar[bool] = False
    objective_names: tuple[str, ...] = ()
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    value_error: float = 0.0
    scales: Any = None
    cost_objectives: tuple[int, ...] = ()

    def __post_init__(self, costs: Sequence[int | str], rescale: bool) -> None:
        mask = None
        if self.action_mask is not None:
            if fault := array_fault(self.action_mask, kinds="biuf"):
                raise InvalidInputError(f"action_mask must be an array of flags: {fault}")
            mask = np.array(self.action_mask, dtype=bool)
        rewards = read_rewards(self.R, mask)
        n_states, n_actions, k = rewards.shape
        if mask is None:
            mask = np.ones((n_states, n_actions), dtype=bool)
        elif mask.shape != (n_states, n_actions):
            raise InvalidInputError(
                f"action_mask must have shape {(n_states, n_actions)}, got {mask.shape}"
            )
        _set(self, H=check_int(self.H, "H", low=1), s0=check_int(self.s0, "s0"))
        if not 0 <= self.s0 < n_states:
            raise InvalidInputError(f"s0 must be a state in 0..{n_states - 1}, got {self.s0}")
        _set(self, P=read_transitions(self.P, mask), action_mask=mask)
        names = tuple(self.objective_names) or tuple(f"objective {j}" for j in range(k))
        if len(names) != k:
            raise InvalidInputError(f"objective_names must have {k} entries, got {len(names)}")
        _set(self, objective_names=names)
        cost_columns = objective_indices(costs, names, "costs")
        scales = np.ones(k) if self.scales is None else check_float_array(self.scales, "scales")
        rewards[~mask] = 0.0
        if self.do_nothing is not None:
            check_int(self.do_nothing, "do_nothing", low=0, high=n_actions - 1)
        rewards, factors = to_benefits(rewards, mask, self.do_nothing, cost_columns, rescale)
        _set(self, R=rewards, scales=scales * factors)
        _set(self, cost_objectives=tuple(sorted({*self.cost_objectives, *cost_columns})))
        self._validate()
        for array in (self.R, self.action_mask, self.scales):
            array.setflags(write=False)

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return int(self.action_mask.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions A, available anywhere."""
        return int(self.action_mask.shape[1])

    @property
    def n_objectives(self) -> int:
        """Number of objectives k."""
        return int(self.R.shape[2])

    @property
    def csr(self) -> tuple[NDArray[Any], NDArray[Any], FloatArray]:
        """Row pointers, unsigned column indices and data of ``P``, for compiled loops."""
        return self.P.indptr, self.P.indices.view(f"u{self.P.indices.itemsize}"), self.P.data

    @property
    def scale(self) -> float:
        """Largest possible length of a value vector, sqrt(k) * H."""
        return float(np.sqrt(self.n_objectives) * self.H)

    def __repr__(self) -> str:
        return (
            f"MultiObjectiveMDP(states={self.n_states}, actions={self.n_actions}, "
            f"objectives={list(self.objective_names)}, H={self.H}, transitions={self.P.nnz})"
        )

    def original_value(self, value: Sequence[float] | FloatArray) -> FloatArray:
        """Return a value vector in the units the process was given in.

        A benefit is multiplied by its scale. A cost comes back as the total cost of all steps.
        """
        array = check_float_array(value, "value").copy()
        cost = list(self.cost_objectives)
        array[..., cost] = self.H - array[..., cost]
        return np.asarray(array * self.scales)

    def original_weights(self, w: Sequence[float] | FloatArray) -> FloatArray:
        """Return preference weights per original unit: ``w_j / scale_j``."""
        return np.asarray(check_float_array(w, "w") / self.scales)

    @classmethod
    def from_gymnasium(
        cls,
        env: Any,
        horizon: int,
        *,
        costs: Sequence[int | str] = (),
        samples: int | None = None,
        confidence: float = 0.95,
        max_states: int = 20_000,
        objective_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        random_state: RandomState = 0,
        **env_options: Any,
    ) -> MultiObjectiveMDP:
        """Return the finite-horizon process of an environment, with doing nothing added.

        Rewards are divided by their largest value per objective; :meth:`original_value` undoes it.

        Parameters
        ----------
        env:
            Name of a mo-gymnasium environment, or the environment itself. Discrete actions; the
            observation must be the whole state.
        horizon:
            Number of steps. After the episode has ended nothing more is paid and nothing costs.
        costs:
            Objectives that are penalties (negative rewards), by index or name. Each becomes the
            benefit ``1 - cost / largest cost`` per step.
        samples:
            None for deterministic environments, which are enumerated; it is noticed when a step
            uses randomness. A number repeats every random step that often.
        confidence:
            Confidence of ``value_error`` where steps were sampled.
        max_states:
            Give up beyond this many states within the horizon.
        objective_names:
            Words for people.
        action_names:
            Words for people.
        random_state:
            Seed of the samples.
        env_options:
            Passed to ``mo_gymnasium.make``.

        Notes
        -----
        With samples, ``|V_estimated - V| <= value_error`` holds for all policies and objectives at
        once with probability ``confidence``, provided that nothing rarer was missed: no random step
        has more different outcomes than the largest number seen for any step, and no reward varies
        more than was seen.

        Examples
        --------
        Any object with ``reset``, ``step`` and a discrete action space will do:

        >>> class Corridor:
        ...     action_space = type("Discrete", (), {"n": 2})
        ...     def reset(self, seed=None):
        ...         self.cell = 0
        ...         return self.cell, {}
        ...     def step(self, action):
        ...         self.cell += 1 if action else 0
        ...         return self.cell, [float(self.cell == 3), -1.0], self.cell == 3, False, {}
        >>> from counterplay.elicitation import plan
        >>> names = ["prize", "time"]
        >>> mdp = MultiObjectiveMDP.from_gymnasium(Corridor(), 5, costs=[1], objective_names=names)
        >>> mdp.n_states, mdp.original_value(plan(mdp, [[1.0, 1.0]]).values[0]).tolist()
        (4, [1.0, 3.0])
        """
        from counterplay.elicitation.gym_models import read_environment

        return read_environment(
            env,
            horizon,
            costs=costs,
            samples=samples,
            confidence=confidence,
            max_states=max_states,
            objective_names=objective_names,
            action_names=action_names,
            random_state=random_state,
            **env_options,
        )

    @classmethod
    def from_road_graph(
        cls,
        graph: nx.MultiDiGraph[Any],
        source: Any,
        target: Any,
        horizon: int,
        *,
        objectives: Sequence[str],
        costs: Sequence[str] = (),
        congestion: str = "congestion",
        delay: str = "delay",
        delayed: str | None = None,
        forward_only: bool = False,
    ) -> MultiObjectiveMDP:
        """Return the process of travelling from source to target in at most ``horizon`` edges.

        Parameters
        ----------
        graph:
            Directed or undirected, parallel edges allowed. Edge attributes are numbers.
        source:
            Node where the trip begins.
        target:
            Node where the trip is over: nothing is paid and nothing costs any more.
        horizon:
            Most edges of a trip (jams count as one).
        objectives:
            Edge attributes, in the order of the objectives. Missing attributes count as 0.
        costs:
            Those of them that should be small, such as ``"time"``. Each becomes the benefit
            ``1 - cost / largest cost`` per step.
        congestion:
            Edge attribute with the probability of a jam.
        delay:
            Edge attribute with the extra amount of ``delayed`` that a jam costs.
        delayed:
            Objective that a jam adds to; the first of ``costs`` by default.
        forward_only:
            Keep only edges that come closer to the target (in the first of ``costs``, or else in
            number of edges). Every trip then arrives. Use it for maps with edges of very different
            lengths, where going to and fro on a short edge would cost less than travelling.

        Examples
        --------
        >>> import networkx as nx
        >>> roads = nx.MultiDiGraph()
        >>> _ = roads.add_edge("home", "work", time=20.0, scenery=0.1, congestion=0.1, delay=60.0)
        >>> _ = roads.add_edge("home", "lake", time=25.0, scenery=1.0)
        >>> _ = roads.add_edge("lake", "work", time=15.0, scenery=0.8)
        >>> goals = {"objectives": ["time", "scenery"], "costs": ["time"]}
        >>> mdp = MultiObjectiveMDP.from_road_graph(roads, "home", "work", 3, **goals)
        >>> from counterplay.elicitation import plan
        >>> mdp.original_value(plan(mdp, [[1.0, 0.0]]).values[0]).round(1).tolist()
        [26.0, 0.1]
        """
        from counterplay.elicitation.road_networks import read_road_graph

        return read_road_graph(
            graph,
            source,
            target,
            horizon,
            objectives=objectives,
            costs=costs,
            congestion=congestion,
            delay=delay,
            delayed=delayed,
            forward_only=forward_only,
        )

    def _validate(self) -> None:
        check_transition_rows(self.P, self.action_mask)
        check_rewards(self.R, self.action_mask)
        reachable = reachable_states(self)
        stuck = np.flatnonzero(reachable & ~self.action_mask.any(axis=1))
        if stuck.size:
            raise InvalidInputError(
                f"state {stuck[0]} can be reached but has no available action; "
                "make it absorbing with one action that pays nothing"
            )
        if self.do_nothing is None:
            _set(self, do_nothing=_find_do_nothing(self))
        else:
            check_int(self.do_nothing, "do_nothing", low=0, high=self.n_actions - 1)
            _check_do_nothing(self, self.do_nothing)


@checked
def add_do_nothing(mdp: MultiObjectiveMDP) -> MultiObjectiveMDP:
    """Return the process with one more action: stay in ``s0`` and get nothing.

    The mixture with this action is the measuring scale of every elicitation procedure. A process
    that has such an action already is returned as it is.

    Parameters
    ----------
    mdp:
        The decision process.

    Examples
    --------
    >>> import numpy as np
    >>> mdp = MultiObjectiveMDP(np.ones((1, 1, 1)), [[[1.0]]], H=3)
    >>> mdp.do_nothing is None, add_do_nothing(mdp).do_nothing
    (True, 1)

    References
    ----------
    "Setting", see docs/theory/08-elicitation.md.
    """
    if mdp.do_nothing is not None:
        return mdp
    s, a, k = mdp.R.shape
    rows = (np.arange(s)[:, None] * (a + 1) + np.arange(a)[None, :]).ravel()
    old = mdp.P.tocoo()
    row = np.append(rows[old.row], mdp.s0 * (a + 1) + a)
    column = np.append(old.col, mdp.s0)
    data = np.append(old.data, 1.0)
    transitions = sparse.csr_array((data, (row, column)), shape=(s * (a + 1), s))
    rewards = np.concatenate([mdp.R, np.zeros((s, 1, k))], axis=1)
    mask = np.concatenate([mdp.action_mask, np.zeros((s, 1), dtype=bool)], axis=1)
    mask[mdp.s0, a] = True
    names = None if mdp.action_names is None else (*mdp.action_names, "do nothing")
    return replace(
        mdp,
        P=transitions,
        R=rewards,
        action_mask=mask,
        do_nothing=a,
        action_names=names,
        costs=(),
        rescale=False,
    )


def reachable_states(mdp: MultiObjectiveMDP) -> BoolArray:
    """Return which states some policy can reach from ``s0`` at any time before the horizon ends."""
    n, a = mdp.action_mask.shape
    available = mdp.P[np.flatnonzero(mdp.action_mask.ravel())]
    origin = np.repeat(np.flatnonzero(mdp.action_mask.ravel()) // a, np.diff(available.indptr))
    shape = (n, n)
    graph = sparse.csr_array((np.ones(origin.size), (origin, available.indices)), shape=shape)
    seen = np.zeros(n, dtype=bool)
    seen[mdp.s0] = True
    frontier = seen.copy()
    for _ in range(min(mdp.H, n)):
        frontier = (graph.T @ frontier.astype(np.float64) > 0) & ~seen
        if not frontier.any():
            break
        seen |= frontier
    return seen


def _set(mdp: MultiObjectiveMDP, **fields: Any) -> None:
    for name, value in fields.items():
        object.__setattr__(mdp, name, value)


def _is_do_nothing(mdp: MultiObjectiveMDP, action: int) -> str | None:
    """Return what is wrong with ``action`` as a do-nothing action, or None."""
    column = mdp.action_mask[:, action]
    if not column[mdp.s0] or column.sum() != 1:
        return f"must be available in s0 = {mdp.s0} only"
    if (mdp.R[mdp.s0, action] != 0).any():
        return f"must pay 0, but R is {mdp.R[mdp.s0, action].tolist()}"
    row = mdp.P[[mdp.s0 * mdp.n_actions + action]].toarray()[0]
    if abs(row[mdp.s0] - 1.0) > ROW_SUM_TOLERANCE:
        return f"must stay in s0 with probability 1, but stays with {row[mdp.s0]:g}"
    return None


def _check_do_nothing(mdp: MultiObjectiveMDP, action: int) -> None:
    problem = _is_do_nothing(mdp, action)
    if problem is not None:
        raise InvalidInputError(f"the do-nothing action {action} {problem}")


def _find_do_nothing(mdp: MultiObjectiveMDP) -> int | None:
    for action in range(mdp.n_actions):
        if _is_do_nothing(mdp, action) is None:
            return action
    return None


def require_do_nothing(mdp: MultiObjectiveMDP) -> int:
    """Return the do-nothing action or say how to get one."""
    if mdp.do_nothing is None:
        raise InvalidInputError(
            f"the process has no do-nothing action in s0 = {mdp.s0}; "
            "call add_do_nothing(mdp) to append one"
        )
    return mdp.do_nothing
