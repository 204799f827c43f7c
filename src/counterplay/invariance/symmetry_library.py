"""Symmetries worth asking about, by what rows are: pictures, sequences, sets, graphs, tables.

Nothing here looks at labels. Columns of a table are candidates for a swap if their values are
distributed alike, or if their names say that they are counterparts.
Source: docs/theory/22-symmetry.md, "Search with error control".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from scipy import stats

from counterplay.core.validation import FloatArray, check_int, shorten
from counterplay.errors import InvalidInputError
from counterplay.invariance import groups
from counterplay.invariance.errors import ShapeError
from counterplay.invariance.permutation_groups import CoordinatePermutationGroup
from counterplay.invariance.transformations import TransformationSet

Library = dict[str, TransformationSet]
MOST_SWAPS = 60  # pairs of columns that are tried, the most alike first
_ALIKE = 0.2  # largest Kolmogorov-Smirnov distance of columns that may be interchangeable


def library(kind: str, width: int, shape: Sequence[int] | None) -> Library:
    """Candidates for rows of this kind, except tables.

    Examples
    --------
    >>> sorted(library("image", 12, (3, 4)))
    ['half turn', 'mirror', 'shift by 1 pixel', 'upside down']
    """
    makers: dict[str, Callable[[int, Sequence[int] | None], Library]] = {
        "image": _images, "board": _boards, "sequence": _sequences, "set": _sets, "graph": _graphs,
    }  # fmt: skip
    if kind not in makers:
        raise InvalidInputError(
            f"kind must be one of {', '.join([*makers, 'text', 'table'])}, got {shorten(kind, 40)}"
        )
    return makers[kind](width, shape)


def column_candidates(
    rows: FloatArray, names: Sequence[str], kinds: Sequence[str], allowed: Sequence[int]
) -> Library:
    """Swaps of columns that are distributed alike, blocks with matching names, sign flips."""
    p = rows.shape[1]
    found: Library = {}
    for a, b in _alike(rows, kinds, allowed):
        found[f"swap {names[a]}, {names[b]}"] = _exchange(p, [[a], [b]])
    for title, blocks in _named_blocks(names, allowed):
        if len(blocks) <= 6 and f"swap {title}" not in found:
            found[title] = _exchange(p, blocks)
    for j in allowed:
        values = rows[:, j][~np.isnan(rows[:, j])]
        if kinds[j] == "number" and (values > 0).any() and (values < 0).any():
            found[f"sign of {names[j]}"] = groups.sign_flips(p, [[j]])
    return found


def _exchange(p: int, blocks: Sequence[Sequence[int]]) -> TransformationSet:
    return groups.column_permutations(p, blocks=blocks)


def _alike(rows: FloatArray, kinds: Sequence[str], allowed: Sequence[int]) -> list[tuple[int, int]]:
    distances = []
    for a, b in combinations(allowed, 2):
        first, second = rows[:, a], rows[:, b]
        if kinds[a] != kinds[b]:
            continue
        first, second = first[~np.isnan(first)], second[~np.isnan(second)]
        if len(first) and len(second):
            gap = float(stats.ks_2samp(first, second, method="asymp").statistic)
            if gap <= _ALIKE:
                distances.append((gap, a, b))
    return [(a, b) for _, a, b in sorted(distances)[:MOST_SWAPS]]


def _named_blocks(
    names: Sequence[str], allowed: Sequence[int]
) -> list[tuple[str, list[list[int]]]]:
    """Blocks such as left_* and right_*, and numbered columns such as x1, x2, x3."""
    numbered: dict[str, list[int]] = {}
    prefixed: dict[str, dict[str, int]] = {}
    for j in allowed:
        match = re.fullmatch(r"(.*?)[_ ]?(\d+)", names[j])
        if match and match[1]:
            numbered.setdefault(match[1], []).append(j)
        head, _, tail = names[j].partition("_")
        if tail:
            prefixed.setdefault(head, {})[tail] = j
    out = [(f"order of {stem}*", [[j] for j in js]) for stem, js in numbered.items() if len(js) > 1]
    tails: dict[tuple[str, ...], list[str]] = {}
    for head, parts in prefixed.items():
        tails.setdefault(tuple(sorted(parts)), []).append(head)
    for keys, heads in tails.items():
        if len(heads) > 1:
            blocks = [[prefixed[head][key] for key in keys] for head in heads]
            out.append((f"swap {', '.join(f'{head}_*' for head in heads)}", blocks))
    return out


def _images(width: int, shape: Sequence[int] | None) -> Library:
    size = _checked_shape(width, shape, (2, 3), "(height, width) or (height, width, channels)")
    found: Library = {
        "mirror": groups.image_flips(size, axes=["horizontal"]),
        "upside down": groups.image_flips(size, axes=["vertical"]),
        "half turn": groups.image_rotations(size, angles=2),
    }
    if size[0] == size[1]:
        found["quarter turns"] = groups.image_rotations(size)
        found["transpose"] = transpose(size)
    for pixels in (1, 2):
        if min(size[:2]) > 2 * pixels:
            name = f"shift by {pixels} pixel{'s' if pixels > 1 else ''}"
            found[name] = groups.image_jitter(size, pixels=pixels)
    if len(size) == 3 and 1 < size[2] <= 4:
        found["colour permutations"] = groups.colour_permutations(size)
    return found


def transpose(shape: Sequence[int]) -> CoordinatePermutationGroup:
    """Rows and columns of square images exchanged."""
    index = np.arange(math.prod(shape)).reshape(tuple(shape))
    moved = np.swapaxes(index, 0, 1).reshape(-1)
    group = CoordinatePermutationGroup(np.array([index.reshape(-1), moved]))
    group.kind = "image"
    return group


def _boards(width: int, shape: Sequence[int] | None) -> Library:
    side = math.isqrt(width)
    size = (side, side) if shape is None and side * side == width else shape
    size = _checked_shape(width, size, (2, 3), "(side, side) or (side, side, channels)")
    return {"all symmetries of the board": groups.d4(size)}


def _sequences(width: int, shape: Sequence[int] | None) -> Library:
    given = (width, 1) if shape is None else tuple(shape)
    length, channels = _checked_shape(width, given, (2,), "(length, channels)")
    found: Library = {
        "reversal": groups.sequence_reversal(length, channels),
        "cyclic shifts": groups.cyclic_shifts(length, channels=channels),
    }
    if channels == 4:
        found["reverse complement"] = groups.reverse_complement(length)
    return found


def _sets(width: int, shape: Sequence[int] | None) -> Library:
    given = (width, 1) if shape is None else tuple(shape)
    n, size = _checked_shape(width, given, (2,), "(number of records, numbers in a record)")
    return {"order of the records": groups.set_permutations(n, size)}


def _graphs(width: int, shape: Sequence[int] | None) -> Library:
    nodes = math.isqrt(width)
    if nodes * nodes != width:
        raise ShapeError(f"rows of {width} numbers are no square adjacency matrices")
    return {"order of the nodes": groups.graph_relabelling(nodes)}


def _checked_shape(
    width: int, shape: Sequence[int] | None, axes: tuple[int, ...], words: str
) -> tuple[int, ...]:
    if shape is None:
        raise ShapeError(f"shape= is needed: {words}")
    if np.ndim(shape) != 1 or len(shape) not in axes:
        raise ShapeError(f"shape must be {words}, got {shorten(shape, 60)}")
    sizes = tuple(check_int(s, "shape", low=1) for s in shape)
    if math.prod(sizes) != width:
        raise ShapeError(f"shape {sizes} has {math.prod(sizes)} numbers, the rows have {width}")
    return sizes
