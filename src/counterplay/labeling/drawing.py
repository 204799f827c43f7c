"""Query trees as pictures: colour is the owner, leaves are labelings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.errors import InvalidInputError
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.validation import FloatArray
from counterplay.labeling.algorithm import TreeAlgorithm
from counterplay.labeling.model import PoolProblem
from counterplay.labeling.tree import LEAF, QueryTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LEAVES = 64


def draw_tree(problem: PoolProblem, algorithm: TreeAlgorithm, *, ax: Axes | None = None) -> Axes:
    """Draw the joint query tree of at most 64 leaves.

    >>> from counterplay.labeling import GBS, instances
    >>> ax = draw_tree(instances.threshold_example(), GBS())
    >>> len(ax.texts)  # three questions, four leaves, six labels on the branches
    13
    """
    tree = algorithm.tree(problem)
    if tree.leaves.size > _MOST_LEAVES:
        raise InvalidInputError(
            f"the tree has {tree.leaves.size} leaves; only {_MOST_LEAVES} can be drawn"
        )
    shares = tree.shares(problem.owner_mask, algorithm.assignment)
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
        _draw_node(ax, problem, tree, node, (x[node], y[node]), int(np.argmax(shares[node])))
    for agent in range(problem.k):
        ax.plot([], [], "s", color=PALETTE[agent % len(PALETTE)], label=problem.name(agent))
    ax.legend(loc="upper right")
    ax.set_axis_off()
    ax.margins(0.08, 0.12)
    return ax


def _draw_node(
    ax: Axes,
    problem: PoolProblem,
    tree: QueryTree,
    node: int,
    where: tuple[float, float],
    agent: int,
) -> None:
    if tree.point[node] == LEAF:
        row = problem.H[tree.rows[tree.lo[node]]]
        text, colour = "".join(map(str, row.tolist())), "#DDDDDD"
        text = text if len(text) <= 12 else f"{text[:9]}..."
        ink = "black"
    else:
        text, colour = problem.point_name(int(tree.point[node])), PALETTE[agent % len(PALETTE)]
        ink = "white"
    ax.text(
        *where,
        text,
        ha="center",
        va="center",
        color=ink,
        fontsize=8,
        zorder=3,
        bbox={"boxstyle": "round,pad=0.35", "fc": colour, "ec": "none"},
    )


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
