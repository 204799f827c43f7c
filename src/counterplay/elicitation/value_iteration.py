"""Backward induction for sixteen directions at a time, one per lane of a wide vector, or for one.

The values of sixteen directions lie side by side, so one pass over the transitions serves all of
them and every addition is a vector instruction. Compilers do not find these vectors by themselves
(short loops over arrays that might overlap), so two operations are spelled out for the code
generator. No fused multiply-add: results are the same on every processor.
Source: Eq. eq:piw, spec 08 section A0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray

LANES = 16
_LINE = 64  # bytes per cache line: vectors that straddle two lines cost twice
_FLOATS = ir.VectorType(ir.DoubleType(), LANES)
_FIRST = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)


def value_iterate(
    csr: tuple[NDArray[Any], NDArray[Any], FloatArray],
    rewards: FloatArray,
    mask: NDArray[np.bool_],
    directions: FloatArray,
    policies: NDArray[Any],
) -> FloatArray:
    """Fill ``policies`` (m, H, S) for at most LANES directions (m, k); return values (S, m).

    ``rewards`` is (S, A, k). Ties go to the lowest action; a state without actions is worth 0.
    """
    n, actions, k = rewards.shape
    m = len(directions)
    wide = np.zeros((k, LANES))
    wide[:, :m] = directions.T
    gains = _aligned(n * actions * LANES)
    np.matmul(rewards.reshape(-1, k), wide, out=gains.reshape(-1, LANES))
    if m == 1:  # without lanes; the same additions in the same order, so the same numbers
        alone = np.ascontiguousarray(gains[::LANES])
        return np.asarray(_backward_one(*csr, alone, mask, policies[0]))[:, None]
    later, now = _aligned(n * LANES), _aligned(n * LANES)
    final = _backward(*csr, gains, mask, policies, now, later, _aligned(LANES))
    return np.asarray(final.reshape(n, LANES)[:, :m])


def _aligned(size: int) -> FloatArray:
    """Zeros that begin on a cache line."""
    raw = np.zeros(size + _LINE // 8)
    skip = -raw.ctypes.data % _LINE // 8
    return raw[skip : skip + size]


def _lanes(context: Any, builder: Any, kind: Any, array: Any, position: Any, vector: Any) -> Any:
    """Pointer to the vector that begins at ``position`` of an array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [position]), vector.as_pointer())


def _spread(builder: Any, scalar: Any) -> Any:
    """The same number in every lane."""
    vector = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
    return builder.shuffle_vector(
        builder.insert_element(vector, scalar, ir.IntType(32)(0)), vector, _FIRST
    )


@intrinsic
def _add_successors(context, value, gains, at, indices, data, begin, end, later):  # type: ignore[no-untyped-def]  # read by numba
    """``value[:] = gains[at:] + sum of data[e] * later[indices[e]]``, all lanes at once."""
    place = types.intp
    signature = types.void(value, gains, place, indices, data, place, place, later)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, gains, at, _, _, begin, end, later = arguments
        kinds = signature.args
        total = cgutils.alloca_once(builder, _FLOATS)  # type: ignore[no-untyped-call]  # no stubs
        start = _lanes(context, builder, kinds[1], gains, at, _FLOATS)
        builder.store(builder.load(start, align=8), total)
        pairs = [context.make_array(kinds[i])(context, builder, arguments[i]).data for i in (3, 4)]
        with cgutils.for_range_slice(builder, begin, end, begin.type(1)) as (entry, _):
            state, weight = (builder.load(builder.gep(part, [entry])) for part in pairs)
            place = builder.mul(state, state.type(LANES))
            row = builder.load(_lanes(context, builder, kinds[7], later, place, _FLOATS), align=8)
            change = builder.fmul(row, _spread(builder, weight))
            builder.store(builder.fadd(builder.load(total), change), total)
        target = _lanes(context, builder, kinds[0], value, begin.type(0), _FLOATS)
        builder.store(builder.load(total), target, align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _keep_larger(context, best, choice, at, value, action):  # type: ignore[no-untyped-def]  # read by numba
    """Where ``value`` beats ``best[at:]``, take it and note the action."""
    signature = types.void(best, choice, types.intp, value, action)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        best, choice, at, value, action = arguments
        kinds = signature.args
        numbers = ir.VectorType(action.type, LANES)
        old_at = _lanes(context, builder, kinds[0], best, at, _FLOATS)
        noted_at = _lanes(context, builder, kinds[1], choice, at, numbers)
        new_at = _lanes(context, builder, kinds[3], value, at.type(0), _FLOATS)
        old, new = builder.load(old_at, align=8), builder.load(new_at, align=8)
        noted = builder.load(noted_at, align=2)
        better = builder.fcmp_ordered(">", new, old)
        builder.store(builder.select(better, new, old), old_at, align=8)
        chosen = builder.select(better, _spread(builder, action), noted)
        builder.store(chosen, noted_at, align=2)
        return context.get_dummy_value()

    return signature, generate


@njit(cache=True, nogil=True)
def _backward(indptr, indices, data, gains, mask, policies, now, later, value):  # type: ignore[no-untyped-def]  # compiled by numba
    m, horizon, n = policies.shape
    n_actions = mask.shape[1]
    layer = np.zeros(n * LANES, policies.dtype)  # actions of one time
    idle = np.array([not mask[s].any() for s in range(n)])  # never reached
    for t in range(horizon - 1, -1, -1):
        now[:] = -np.inf
        for s in range(n):
            for a in range(n_actions):
                if mask[s, a]:
                    row = s * n_actions + a
                    begin, end = indptr[row], indptr[row + 1]
                    _add_successors(value, gains, row * LANES, indices, data, begin, end, later)  # type: ignore[call-arg]  # numba passes its context
                    _keep_larger(now, layer, s * LANES, value, layer.dtype.type(a))
            if idle[s]:
                now[s * LANES : (s + 1) * LANES] = 0.0
        for i in range(m):
            for s in range(n):
                policies[i, t, s] = layer[s * LANES + i]
        now, later = later, now
    return later


@njit(cache=True, nogil=True)
def _backward_one(indptr, indices, data, gains, mask, policy):  # type: ignore[no-untyped-def]  # compiled by numba
    horizon, n = policy.shape
    n_actions = mask.shape[1]
    now, later = np.zeros(n), np.zeros(n)
    for t in range(horizon - 1, -1, -1):
        for s in range(n):
            best, choice = -np.inf, 0
            for a in range(n_actions):
                if mask[s, a]:
                    row = np.uint64(s * n_actions + a)
                    value = gains[row]
                    for e in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
                        value += data[e] * later[indices[e]]
                    if value > best:
                        best, choice = value, a
            now[s] = best if best > -np.inf else 0.0  # no action: never reached
            policy[t, s] = choice
        now, later = later, now
    return later
