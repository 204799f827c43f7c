"""Hard instances and worked examples, as generators.

Each shows one fact: where single objectives do not span the space, where a thin direction makes
weights meaningless but decisions easy, where the thesis' basis loses a Fibonacci factor, where a
sample never shows the crash.
Source: docs/theory/08-elicitation.md, sections "Results" and "Errata" (appendices G.8 and G.13 of
the thesis).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_fraction,
    check_int,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.elicitation.bounds import FIBONACCI_SHARE
from counterplay.elicitation.mdp import MultiObjectiveMDP, add_do_nothing

if TYPE_CHECKING:
    import networkx as nx


_MOST_CELLS = 10_000_000


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class ValueInstance:
    """A finite set of value vectors with a user.

    Examples
    --------
    >>> thin_direction(0.1).w.tolist()
    [1.0, 0.7, 0.9]
    """

    values: FloatArray
    """Value vectors (n, k); row 0 is the benchmark where the instance fixes one."""
    w: FloatArray
    eps: float
    regret: float | None = None
    """Regret the theory predicts, where there is a closed form."""

    def __post_init__(self) -> None:
        for array in (self.values, self.w):
            array.setflags(write=False)


@checked
def linear_dependence() -> MultiObjectiveMDP:
    """The best options of three objectives span only a plane, a fourth action does not.

    Examples
    --------
    >>> bandit = linear_dependence()
    >>> int(np.linalg.matrix_rank(bandit.R[0, :4], tol=1e-9))
    3
    """
    rewards = np.array([[8, 4, 2], [1, 2, 3], [85 / 12, 25 / 6, 35 / 12], [1, 3, 2]]) / 8
    return bandit(rewards)


@checked
def bandit(values: ArrayLike) -> MultiObjectiveMDP:
    """Return the one-step process whose actions have the given values, plus doing nothing.

    Examples
    --------
    >>> bandit([[1.0, 0.2], [0.1, 0.9]]).n_actions
    3
    """
    rows = check_float_array(values, "values", ndim=2)
    transitions = np.ones((1, len(rows), 1))
    return add_do_nothing(MultiObjectiveMDP(transitions, rows[None], H=1))


@checked
def near_indistinguishable(
    w: FloatArray | None = None, eps: float = 1e-2, factor: float = 0.99
) -> ValueInstance:
    """Options so close that the weights stay unknown while every decision is right.

    Examples
    --------
    >>> near_indistinguishable().values.shape
    (4, 4)
    """
    weights = np.array([1.0, 0.5, 0.25, 0.8]) if w is None else np.asarray(w, dtype=np.float64)
    k = weights.size
    values = np.zeros((k, k))
    values[:, 0] = 1.0
    values[np.arange(1, k), np.arange(1, k)] = factor * eps / weights[1:]
    return ValueInstance(values, weights, eps)


@checked
def thin_direction(eta: float = 0.01) -> ValueInstance:
    """A direction of width ``eta``; the estimated weight along it explodes as eta shrinks.

    Examples
    --------
    >>> thin_direction(1e-5).values.tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1e-05]]
    """
    width = check_real(eta, "eta", low=0.0, open_low=True)
    values = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, width]])
    return ValueInstance(values, np.array([1.0, 0.7, 0.9]), 0.01)


@checked
def epsilon_toy(eta: float = 0.1, *, feasible: bool = True) -> ValueInstance:
    """The toy of appendix G.8; ``feasible=True`` keeps all values non-negative.

    Examples
    --------
    >>> epsilon_toy(0.1).values.min() >= 0, epsilon_toy(0.1, feasible=False).values.min() >= 0
    (np.True_, np.False_)
    """
    width = check_real(eta, "eta", low=0.0, high=1.0, open_low=True)
    third = [1.0, 0.5 + width, 0.5 - width] if feasible else [1.0, width, -width]
    values = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], third])
    return ValueInstance(values, np.array([1.0, 0.6, 0.3]), 0.01)


@checked
def truncation_bias(eps: float = 1e-6) -> ValueInstance:
    """The truncated estimator drops the only useful direction; regret of order eps^(1/3).

    Examples
    --------
    >>> round(truncation_bias(1e-9).regret / 1e-9 ** (1 / 3), 3)
    2.506
    """
    precision = check_real(eps, "eps", low=0.0, high=1e-4, open_low=True)
    delta = 2 ** (5 / 3) * precision ** (1 / 3)
    c = 0.2 * delta
    y = 0.99 * delta * (1 - c) / np.sqrt(1 - (0.99 * delta) ** 2)
    values = np.array([[1 - c, y], [1.0, 0.0]])
    return ValueInstance(values, np.ones(2), precision, regret=float(y - c))


@checked
def fibonacci(d: int = 8, eps: float = 1e-4) -> ValueInstance:
    """The thesis' basis loses a factor F(d+1)-1 when the complement is axis-parallel.

    Examples
    --------
    >>> instance = fibonacci(8)
    >>> round(instance.regret / instance.eps, 2)
    23.75
    """
    k = check_int(d, "d", low=3, high=13)
    n = k - 1
    row, column = np.indices((n, n))
    lower = ((row >= column) & ((row == column) | ((row - column) % 2 == 1))).astype(np.float64)
    lower *= 1 - 1e-4 * np.arange(1, n + 1)[:, None]
    last = ((n - np.arange(1, n + 1)) % 2 == 0) * (1 - 1e-4 * (n + 1))
    c = np.linalg.solve(lower.T, last)
    g = 2.0 * k
    while g > 0.5:
        g /= 2
    alpha = g - 0.9 * eps * np.sign(c)
    w = np.full(k, 0.01)
    w[0] = 1.0
    regret = FIBONACCI_SHARE * eps * float(np.abs(c).sum())
    values = np.zeros((n + 2, k))
    values[0, 0] = 1.0
    values[1 : n + 1, 0] = alpha - 0.01 * lower.sum(axis=1)
    values[1 : n + 1, 1:] = lower
    values[n + 1, 0] = 1 - regret - 0.01 * last.sum()
    values[n + 1, 1:] = last
    return ValueInstance(values, w, eps, regret=regret)


@checked
def stationarity() -> MultiObjectiveMDP:
    """The best policy waits twice and then cashes in; no stationary policy can do that.

    Examples
    --------
    >>> stationarity().H
    3
    """
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 0] = transitions[0, 1, 1] = 1.0
    transitions[1, :, 1] = 1.0
    rewards = np.zeros((2, 2, 1))
    rewards[0, 0, 0], rewards[0, 1, 0] = 0.1, 1.0
    return add_do_nothing(MultiObjectiveMDP(transitions, rewards, H=3))


@checked
def rare_crash(
    n_states: int = 30,
    k: int = 4,
    horizon: int = 20,
    crash_probability: float = 1e-12,
    seed: RandomState = 0,
) -> MultiObjectiveMDP:
    """Driving with a crash in a tiny fraction of the steps; the last objective is "crash".

    The crash pays one unit of the last objective in the crash state, then nothing.

    Examples
    --------
    >>> rare_crash().objective_names[-1]
    'crash'
    """
    n = check_int(n_states, "n_states", low=2)
    _check_process(n, 2, k, cells=2 * n * n)
    p = check_fraction(crash_probability, "crash_probability")
    rng = generator(seed)
    drive = n  # states 0..n-1 drive, n is the crash, n+1 is after it
    transitions = np.zeros((n + 2, 2, n + 2))
    for s in range(n):
        for a in range(2):
            nearby = rng.choice(n, size=min(4, n), replace=False)
            transitions[s, a, nearby] = (1 - p) * rng.dirichlet(np.ones(nearby.size))
            transitions[s, a, drive] = p
    transitions[n, :, n + 1] = transitions[n + 1, :, n + 1] = 1.0
    rewards = np.zeros((n + 2, 2, check_positive_int(k, "k")))
    rewards[:n, :, : k - 1] = rng.random((n, 2, k - 1))
    rewards[n, :, k - 1] = 1.0
    names = (*(f"comfort {j}" for j in range(k - 1)), "crash")
    process = MultiObjectiveMDP(transitions, rewards, H=horizon, objective_names=names)
    return add_do_nothing(process)


@checked
def good_bad_mediocre() -> MultiObjectiveMDP:
    """A coin flip between .9 and 0 against a sure .4.

    One step decides (action 0 risks, action 1 is sure), the next one pays.

    Examples
    --------
    >>> good_bad_mediocre().n_states
    4
    """
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, [1, 2]] = 0.5
    transitions[0, 1, 3] = 1.0
    transitions[1:, :, 2] = 1.0
    rewards = np.zeros((4, 2, 1))
    rewards[1, :, 0], rewards[3, :, 0] = 0.9, 0.4
    names = ("start", "good", "nothing", "mediocre")
    return add_do_nothing(MultiObjectiveMDP(transitions, rewards, H=2, state_names=names))


@checked
def random_mdp(
    seed: RandomState = 0,
    *,
    n_states: int = 10,
    n_actions: int = 4,
    k: int = 4,
    horizon: int = 6,
    rank: int | None = None,
    successors: int | None = None,
) -> MultiObjectiveMDP:
    """Random process with Dirichlet transitions on a few successors and sparse rewards.

    ``rank=r`` makes the rewards combinations of r patterns, so that values span r dimensions.

    Examples
    --------
    >>> random_mdp(0).R.shape
    (10, 5, 4)
    """
    _check_process(n_states, n_actions, k, cells=n_states * n_actions * n_states)
    for name, count in (("rank", rank), ("successors", successors)):
        if count is not None:
            check_positive_int(count, name)
    rng = generator(seed)
    transitions = np.zeros((n_states, n_actions, n_states))
    for s in range(n_states):
        for a in range(n_actions):
            width = successors or int(rng.integers(3, 6))
            chosen = rng.choice(n_states, size=min(width, n_states), replace=False)
            transitions[s, a, chosen] = rng.dirichlet(np.ones(chosen.size))
    shape = (n_states, n_actions)
    if rank is None:
        rewards = rng.random((*shape, k)) * (rng.random((*shape, k)) < 0.4)
    else:
        patterns = rng.random((rank, k))
        patterns /= patterns.sum(axis=0)
        rewards = (rng.random((*shape, rank)) * (rng.random((*shape, rank)) < 0.4)) @ patterns
    return add_do_nothing(MultiObjectiveMDP(transitions, rewards, H=horizon))


@checked
def harvest_tree(
    depth: int = 6, k: int = 6, *, slip: float = 0.0, seed: RandomState = 0
) -> MultiObjectiveMDP:
    """Return a tree of left/right choices whose leaves pay k objectives, none dominating another.

    With probability ``slip`` a step goes to the other side. Like the fruit tree of mo-gymnasium,
    but made here.

    Examples
    --------
    >>> harvest_tree(depth=3, k=2).n_states
    8
    """
    levels = check_int(depth, "depth", low=1, high=14)
    chance = check_fraction(slip, "slip")
    _check_process(2**levels, 2, k, cells=2 ** (2 * levels + 1))
    leaves = np.abs(generator(seed).normal(size=(2**levels, check_positive_int(k, "k"))))
    leaves /= np.linalg.norm(leaves, axis=1, keepdims=True)
    n = 2**levels - 1  # inner nodes in breadth-first order, then the end
    transitions = np.zeros((n + 1, 2, n + 1))
    rewards = np.zeros((n + 1, 2, k))
    side = np.array([[1 - chance, chance], [chance, 1 - chance]])
    for node in range(n):
        children = 2 * node + np.array([1, 2])
        if children[0] < n:
            transitions[node][:, children] = side
        else:
            transitions[node, :, n] = 1.0
            rewards[node] = side @ leaves[children - n]
    transitions[n, :, n] = 1.0
    return add_do_nothing(MultiObjectiveMDP(transitions, rewards, H=levels))


@checked
def sparse_mdp(
    seed: RandomState = 0,
    *,
    n_states: int = 200,
    n_actions: int = 4,
    k: int = 5,
    horizon: int = 50,
    successors: int = 30,
) -> MultiObjectiveMDP:
    """Large sparse process for speed: ``successors`` per pair, built without a dense array.

    Examples
    --------
    >>> sparse_mdp(n_states=50, horizon=5, successors=5).P.nnz
    1001
    """
    from scipy import sparse

    successors = check_positive_int(successors, "successors")
    n_states, n_actions = int(n_states), int(n_actions)
    _check_process(n_states, n_actions, k, cells=n_states * n_actions * min(successors, n_states))
    rng = generator(seed)
    rows = n_states * n_actions
    width = min(successors, n_states)
    start = rng.integers(n_states, size=(rows, 1))
    stride = rng.integers(1, max(2, n_states // width), size=(rows, 1))
    columns = np.sort((start + stride * np.arange(width)) % n_states, axis=1)
    data = rng.dirichlet(np.ones(width), rows)
    pointers = np.arange(rows + 1) * width
    shape = (rows, n_states)
    transitions = sparse.csr_array((data.ravel(), columns.ravel(), pointers), shape=shape)
    rewards = rng.random((n_states, n_actions, k))
    return add_do_nothing(MultiObjectiveMDP(transitions, rewards, H=horizon))


def _check_process(n_states: int, n_actions: int, k: int, cells: int) -> None:
    """Refuse sizes that are no sizes, or a process that does not fit into memory."""
    for name, count in (("n_states", n_states), ("n_actions", n_actions), ("k", k)):
        check_positive_int(count, name)
    check_size(cells + n_states * n_actions * k, _MOST_CELLS, "transitions and rewards")


@checked
def compression_inputs(seed: RandomState = 0) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Inputs that break careless compression: copies, a line, zeros, 12 orders of magnitude.

    Examples
    --------
    >>> sorted(compression_inputs())
    ['collinear', 'copies', 'magnitudes', 'zeros']
    """
    rng = generator(seed)
    uniform = rng.dirichlet(np.ones(50))
    line = rng.random(3) + rng.random((50, 1)) * rng.random(3)
    zeros = uniform * (np.arange(50) % 2)
    magnitudes = 10.0 ** -rng.uniform(0, 12, 50)
    return {
        "copies": (np.tile(rng.random(3), (50, 1)), uniform),
        "collinear": (line, uniform),
        "zeros": (rng.random((50, 3)), zeros / zeros.sum()),
        "magnitudes": (rng.random((50, 3)), magnitudes / magnitudes.sum()),
    }


@checked
def city(
    rows: int = 8, columns: int = 8, *, highway: bool = True, random_state: RandomState = 0
) -> nx.MultiDiGraph[Any]:
    """Return a city to try things on: streets, a river promenade, a motorway that jams.

    Nodes are ``(row, column)`` with attribute ``pos``. Edges have ``time`` (minutes), ``scenery``,
    ``safety`` (both 0 to 1), ``congestion`` (probability) and ``delay`` (minutes).

    Examples
    --------
    >>> town = city(4, 5)
    >>> town.number_of_nodes(), town.has_edge((0, 0), (0, 1))
    (20, True)
    """
    import networkx as nx

    crossings = check_positive_int(rows, "rows") * check_positive_int(columns, "columns")
    check_size(crossings, 50_000, "crossings")
    rng = generator(random_state)
    graph: nx.MultiDiGraph[Any] = nx.MultiDiGraph()
    for r in range(rows):
        for c in range(columns):
            graph.add_node((r, c), pos=(float(c), float(-r)))
    for r in range(rows):
        for c in range(columns):
            for head in ((r, c + 1), (r + 1, c)):
                if head in graph:
                    for edge in (((r, c), head), (head, (r, c))):
                        graph.add_edge(*edge, **_street(edge, rows, columns, rng))
    if highway and columns > 2:
        middle = rows // 2
        for c in range(0, columns - 2, 2):
            for tail, head in (((middle, c), (middle, c + 2)), ((middle, c + 2), (middle, c))):
                graph.add_edge(
                    tail,
                    head,
                    kind="motorway",
                    time=2.0,
                    scenery=0.0,
                    safety=0.55,
                    congestion=0.15,
                    delay=25.0,
                )
    return graph


def _street(
    edge: tuple[tuple[int, int], tuple[int, int]],
    rows: int,
    columns: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    (r, c), (r2, c2) = edge
    if r == r2 == 0:  # the promenade along the river
        return {"kind": "river", "time": 6.0, "scenery": 0.95, "safety": 0.9, "congestion": 0.0}
    if c == c2 == columns - 1:
        return {"kind": "park", "time": 5.0, "scenery": 0.7, "safety": 0.8, "congestion": 0.0}
    central = abs(r - rows / 2) + abs(c - columns / 2) < (rows + columns) / 5
    return {
        "kind": "centre" if central else "street",
        "time": float(np.round(rng.uniform(3.0, 6.0), 1)),
        "scenery": float(np.round(rng.uniform(0.1, 0.4), 2)),
        "safety": float(np.round(rng.uniform(0.2, 0.5) if central else rng.uniform(0.6, 1.0), 2)),
        "congestion": 0.1 if central else 0.0,
        "delay": 10.0,
    }
