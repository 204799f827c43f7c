"""Query trees as pictures: colour is the owner, leaves are labelings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.labeling.algorithm import QueryAlgorithm, TreeAlgorithm
from counterplay.labeling.b2ir import B2IR
from counterplay.labeling.model import PoolProblem
from counterplay.labeling.partial_sir import PrunedPartialSIR
from counterplay.labeling.tree import LEAF, QueryTree, owner_shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LEAVES = 64
_FREE = "////"


@checked
def draw_tree(
    problem: PoolProblem,
    algorithm: QueryAlgorithm,
    *,
    target: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a query tree of at most 64 leaves; questions that nobody has to answer are hatched.

    Use it to show a small campaign to the people who take part in it.

    Parameters
    ----------
    problem:
        The campaign.
    algorithm:
        A tree algorithm such as ``GBS`` or ``OptimalTree``: its joint tree. ``B2IR``: the joint
        tree, with the answers hatched that agents bring from labelling alone. ``PrunedPartialSIR``:
        the favoured agent's own tree, with the questions hatched that the others' labels answer.
    target:
        Row of the true labeling. For ``PrunedPartialSIR`` the others' labels are then known, and
        exactly the pruned questions are hatched; otherwise only those pruned for every target.
    ax:
        Axes to draw on; default: a new figure.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> ax = draw_tree(instances.threshold_example(), GBS())
    >>> len(ax.texts)  # three questions, four leaves, six labels on the branches
    13
    """
    picture = _picture(problem, algorithm, target)
    tree = picture.tree
    if tree.leaves.size > _MOST_LEAVES:
        raise InvalidInputError(
            f"the tree has {tree.leaves.size} leaves; only {_MOST_LEAVES} can be drawn"
        )
    x, y = _layout(tree)
    ax = axes_or_new(ax, width=max(6.0, 0.9 * tree.leaves.size))
    for node in range(tree.n_nodes):
        for label, child in enumerate(tree.children[node]):
            if child != LEAF:
                ax.plot([x[node], x[child]], [y[node], y[child]], color="#999999", zorder=1)
                middle = (x[node] + x[child]) / 2, (y[node] + y[child]) / 2
                ax.annotate(
                    str(label),
                    middle,
                    fontsize=8,
                    ha="center",
                    va="center",
                    bbox={"boxstyle": "circle,pad=0.1", "fc": "white", "ec": "none"},
                )
    for node in range(tree.n_nodes):
        _draw_node(ax, problem, picture, node, (x[node], y[node]))
    _legend(ax, problem, picture)
    ax.set_axis_off()
    ax.margins(0.08, 0.12)
    return ax


@dataclass(frozen=True)
class _Picture:
    """A tree, the full problem's columns and rows behind it, who answers, and what is free."""

    tree: QueryTree
    columns: IntArray
    labelings: NDArray[np.uint8]
    owner: IntArray
    free: BoolArray


def _picture(problem: PoolProblem, algorithm: QueryAlgorithm, target: int | None) -> _Picture:
    if target is not None:
        check_int(target, "target", low=0, high=problem.N - 1)
    if isinstance(algorithm, PrunedPartialSIR):
        restriction = problem.restrict((algorithm.agent,))
        tree = algorithm.baseline.tree(problem, (algorithm.agent,))
        owner = np.full(tree.n_nodes, algorithm.agent)
        free = algorithm.pruned_nodes(problem, target)
        return _Picture(tree, restriction.columns, restriction.problem.H, owner, free)
    wrapped: QueryAlgorithm = algorithm
    alone: tuple[int, ...] = ()
    if isinstance(algorithm, B2IR):
        wrapped = algorithm.joint_baseline(problem, problem.everybody)
        alone = algorithm.must_stay_alone(problem)
    if not isinstance(wrapped, TreeAlgorithm):
        raise InvalidInputError(f"only tree algorithms can be drawn, got {algorithm!r}")
    tree = wrapped.tree(problem)
    owner = owner_shares(tree, problem.owner_mask, wrapped.assignment).argmax(axis=1)
    free = np.isin(owner, alone) & (tree.point != LEAF)
    return _Picture(tree, np.arange(problem.m), problem.H, owner.astype(np.int64), free)


def _draw_node(
    ax: Axes, problem: PoolProblem, picture: _Picture, node: int, where: tuple[float, float]
) -> None:
    from matplotlib.patheffects import withStroke

    tree = picture.tree
    if tree.point[node] == LEAF:
        row = picture.labelings[tree.rows[tree.lo[node]]]
        text = "".join(map(str, row.tolist()))
        text = text if len(text) <= 12 else f"{text[:9]}..."
        ink, box = "black", {"fc": "#DDDDDD", "ec": "none"}
    else:
        text = problem.point_name(int(picture.columns[tree.point[node]]))
        colour = PALETTE[int(picture.owner[node]) % len(PALETTE)]
        ink, box = "white", {"fc": colour, "ec": "none"}
        if picture.free[node]:
            ink, box = "black", {"fc": "white", "ec": colour, "hatch": _FREE}
    halo = [withStroke(linewidth=3, foreground="white")] if picture.free[node] else []
    ax.text(
        *where,
        text,
        ha="center",
        va="center",
        color=ink,
        fontsize=8,
        zorder=3,
        bbox={"boxstyle": "round,pad=0.35", **box},
        path_effects=halo,
    )


def _legend(ax: Axes, problem: PoolProblem, picture: _Picture) -> None:
    from matplotlib.patches import Patch

    asked = sorted(set(picture.owner[picture.tree.point != LEAF].tolist()))
    handles = [
        Patch(color=PALETTE[agent % len(PALETTE)], label=problem.name(agent)) for agent in asked
    ]
    if picture.free.any():
        handles.append(Patch(fc="white", ec="#666666", hatch=_FREE, label="answered for free"))
    ax.legend(handles=handles, loc="upper right", fontsize=8)


def _layout(tree: QueryTree) -> tuple[FloatArray, FloatArray]:
    """Leaves side by side in the order of their rows; a parent sits over its children."""
    x = np.zeros(tree.n_nodes)
    leaves = tree.leaves[np.argsort(tree.lo[tree.leaves])]
    x[leaves] = np.arange(leaves.size)
    for node in range(tree.n_nodes - 1, -1, -1):
        kids = tree.children[node]
        kids = kids[kids != LEAF]
        if kids.size:
            x[node] = x[kids].mean()
    return x, -tree.level.astype(np.float64)
