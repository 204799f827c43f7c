"""Tic-tac-toe endgames: a small real problem with an exact symmetry.

All boards at which a game can end, x first; the question is whether x has won. The eight symmetries
of the square do not change the answer. Source: docs/theory/11-invariance.md, "Measured".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.tables import Table

_LINES = np.array(
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]
)


@checked
def tic_tac_toe_endgames() -> tuple[FloatArray, NDArray[np.int64]]:
    """Boards (1 for x, -1 for o, 0 for empty, shape (958, 9)) and whether x has won.

    Examples
    --------
    >>> X, y = tic_tac_toe_endgames()
    >>> X.shape, int(y.sum())
    ((958, 9), 626)
    """
    boards = np.array(sorted(_endgames()), dtype=np.float64)
    won = (boards[:, _LINES].sum(axis=2) == 3).any(axis=1)
    return boards, won.astype(np.int64)


@checked
def one_hot_boards(X: Any) -> FloatArray:
    """One column per cell and content (empty, o, x): shape (n, 27), a (3, 3, 3) image.

    Examples
    --------
    >>> one_hot_boards([[0, 1, -1, 0, 0, 0, 0, 0, 0]])[0, :9]
    array([1., 0., 0., 0., 0., 1., 0., 1., 0.])
    """
    boards = Table.of(X).numbers()
    if boards.ndim > 2:
        boards = boards.reshape(len(boards), -1)
    if boards.shape[1] != 9 or not np.isin(boards, (-1, 0, 1)).all():
        raise InvalidInputError("boards are rows of nine cells: 1 for x, -1 for o, 0 for empty")
    hot = boards[:, :, None] == np.array([0, -1, 1])
    return np.asarray(hot.reshape(len(boards), 27), dtype=np.float64)


@lru_cache(maxsize=1)
def _endgames() -> frozenset[tuple[int, ...]]:
    ends: set[tuple[int, ...]] = set()
    seen: set[tuple[int, ...]] = set()
    stack: list[tuple[tuple[int, ...], int]] = [((0,) * 9, 1)]
    while stack:
        board, player = stack.pop()
        if board in seen:
            continue
        seen.add(board)
        sums = np.array(board)[_LINES].sum(axis=1)
        if 0 not in board or (np.abs(sums) == 3).any():
            ends.add(board)
            continue
        for cell in range(9):
            if board[cell] == 0:
                stack.append(((*board[:cell], player, *board[cell + 1 :]), -player))
    return frozenset(ends)
