"""Reading the arrays of a decision process: every accepted form, checked, in canonical form.

Source: docs/theory/08-elicitation.md, "Input conventions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from counterplay.core.validation import BoolArray, FloatArray, check_float_array, check_int
from counterplay.errors import InvalidInputError

Transitions: TypeAlias = Any
"""Dense (S, A, S), sparse (S*A, S), a list of A sparse (S, S), or a function of (s, a)."""

ROW_SUM_TOLERANCE = 1e-9


def read_rewards(rewards: Any, mask: BoolArray | None) -> FloatArray:
    """Return rewards (S, A, k) from an array or a function."""
    if callable(rewards):
        if mask is None:
            raise InvalidInputError("a reward function needs action_mask, which gives S and A")
        rows = [[rewards(s, a) for a in range(mask.shape[1])] for s in range(mask.shape[0])]
        rewards = rows
    array = check_float_array(rewards, "R", ndim=3).copy()
    if min(array.shape) < 1:
        raise InvalidInputError(
            f"R must have shape (S, A, k) without empty axes, got {array.shape}"
        )
    return array


def read_transitions(transitions: Transitions, mask: BoolArray) -> Any:
    """Return transitions as one sparse array (S*A, S) from any accepted form."""
    n_states, n_actions = mask.shape
    shape = (n_states * n_actions, n_states)
    if callable(transitions):
        matrix = _enumerate_transitions(transitions, mask)
    elif isinstance(transitions, list | tuple) and transitions and sparse.issparse(transitions[0]):
        matrix = _stack_actions(transitions, n_states, n_actions)
    elif sparse.issparse(transitions):
        matrix = sparse.csr_array(transitions, dtype=np.float64)
    else:
        dense = check_float_array(transitions, "P")
        if dense.shape not in {(n_states, n_actions, n_states), shape}:
            raise InvalidInputError(
                f"P must have shape {(n_states, n_actions, n_states)}, got {dense.shape}"
            )
        matrix = sparse.csr_array(dense.reshape(shape))
    if matrix.shape != shape:
        raise InvalidInputError(f"P must have shape {shape} as a sparse array, got {matrix.shape}")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _enumerate_transitions(function: Callable[[int, int], Any], mask: BoolArray) -> Any:
    n_states, n_actions = mask.shape
    rows, columns, data = [], [], []
    for s, a in np.argwhere(mask):
        outcome = function(int(s), int(a))
        pairs = outcome.items() if isinstance(outcome, dict) else enumerate(np.ravel(outcome))
        for successor, probability in pairs:
            if not 0 <= successor < n_states:
                raise InvalidInputError(
                    f"P({s}, {a}) names the successor {successor}, outside 0..{n_states - 1}"
                )
            rows.append(s * n_actions + a)
            columns.append(successor)
            data.append(float(probability))
    return sparse.csr_array((data, (rows, columns)), shape=(n_states * n_actions, n_states))


def _stack_actions(matrices: Sequence[Any], n_states: int, n_actions: int) -> Any:
    if len(matrices) != n_actions:
        raise InvalidInputError(f"P must list {n_actions} matrices, one per action")
    for a, matrix in enumerate(matrices):
        if matrix.shape != (n_states, n_states):
            raise InvalidInputError(
                f"P[{a}] must have shape {(n_states, n_states)}, got {matrix.shape}"
            )
    parts = [matrix.tocoo() for matrix in matrices]
    rows = np.concatenate([part.row * n_actions + a for a, part in enumerate(parts)])
    columns = np.concatenate([part.col for part in parts])
    data = np.concatenate([part.data for part in parts])
    shape = (n_states * n_actions, n_states)
    return sparse.csr_array((data, (rows, columns)), shape=shape, dtype=np.float64)


def objective_indices(
    names: Sequence[int | str], known: tuple[str, ...], argument: str
) -> tuple[int, ...]:
    """Return the positions of objectives given by index or name."""
    indices = []
    for name in names:
        if isinstance(name, str):
            if name not in known:
                raise InvalidInputError(f"{argument} names {name!r}, which is no objective")
            indices.append(known.index(name))
        else:
            indices.append(check_int(name, argument, low=0, high=len(known) - 1))
    return tuple(indices)


def to_benefits(
    rewards: FloatArray,
    mask: BoolArray,
    do_nothing: int | None,
    costs: tuple[int, ...],
    rescale: bool,
) -> tuple[FloatArray, FloatArray]:
    """Turn costs into benefits and rescale; return rewards and the factor per objective."""
    factors = np.ones(rewards.shape[2])
    paid = mask.copy()
    if do_nothing is not None:
        paid[:, do_nothing] = False
    for j in costs:
        amounts = rewards[..., j][paid]
        if (amounts < 0).any() and (amounts > 0).any():
            raise InvalidInputError(
                f"the costs of objective {j} have both signs, from {amounts.min():g} to "
                f"{amounts.max():g}; give costs as non-negative numbers"
            )
        largest = float(np.abs(amounts).max(initial=0.0))
        if largest == 0:
            raise InvalidInputError(f"objective {j} is a cost but never costs anything")
        rewards[..., j] = np.where(paid, 1.0 - np.abs(rewards[..., j]) / largest, 0.0)
        factors[j] = largest
    if rescale:
        for j in range(rewards.shape[2]):
            largest = float(rewards[..., j].max())
            if j not in costs and largest > 0:
                rewards[..., j] /= largest
                factors[j] = largest
    return rewards, factors


def check_transition_rows(matrix: Any, mask: BoolArray) -> None:
    """Raise unless every available row is a probability distribution."""
    n_actions = mask.shape[1]
    if not np.isfinite(matrix.data).all():
        row = int(
            np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[
                np.flatnonzero(~np.isfinite(matrix.data))[0]
            ]
        )
        raise InvalidInputError(f"P at (s, a) = {divmod(row, n_actions)} is not finite")
    negative = np.flatnonzero(matrix.data < 0)
    if negative.size:
        row = int(np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[negative[0]])
        raise InvalidInputError(
            f"P at (s, a) = {divmod(row, n_actions)} contains the negative probability "
            f"{matrix.data[negative[0]]:g}"
        )
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    wrong = np.flatnonzero(mask.ravel() & (np.abs(sums - 1.0) > ROW_SUM_TOLERANCE))
    if wrong.size:
        row = int(wrong[0])
        raise InvalidInputError(
            f"P at (s, a) = {divmod(row, n_actions)} sums to {sums[row]:.12g}, not to 1"
        )


def check_rewards(rewards: FloatArray, mask: BoolArray) -> None:
    """Raise unless rewards are in [0, 1] and not all zero."""
    outside = np.argwhere(((rewards < 0) | (rewards > 1)) & mask[:, :, None])
    if outside.size:
        s, a, j = (int(i) for i in outside[0])
        raise InvalidInputError(
            f"R at (s, a) = ({s}, {a}), objective {j}, is {rewards[s, a, j]:g}, outside [0, 1]; "
            "pass rescale=True, or costs=[...] for objectives to be kept small"
        )
    if not (rewards[mask] > 0).any():
        raise InvalidInputError("all rewards are 0, so there is nothing to prefer")
