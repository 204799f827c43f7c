"""Planning and evaluation of sixteen directions at a time, one per lane of a wide vector.

Compilers do not find these vectors by themselves (short loops over arrays that might overlap), so
what happens in one state is spelled out for the code generator. No fused multiply-add: results are
the same on every processor, and the same as without lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from counterplay.core.validation import FloatArray

LANES = 16
_LINE = 64  # bytes per cache line: vectors that straddle two lines cost twice
_FLOATS = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.IntType(LANES)  # one bit per lane
_ZEROS = ir.Constant(_FLOATS, [0.0] * LANES)
_LOWEST = ir.Constant(_FLOATS, [float("-inf")] * LANES)
_FIRST = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)


def aligned(size: int) -> FloatArray:
    """Return zeros that begin on a cache line."""
    raw = np.zeros(size + _LINE // 8)
    skip = -raw.ctypes.data % _LINE // 8
    return raw[skip : skip + size]


class _Code:
    """What both operations need: arrays, their data, and the successors of a row."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.context, self.builder = context, builder
        self.kinds, self.arguments = signature.args, arguments

    def data(self, i: int) -> Any:
        """Pointer to the first number of argument i."""
        array = self.context.make_array(self.kinds[i])
        return array(self.context, self.builder, self.arguments[i]).data

    def number(self, i: int, position: Any) -> Any:
        """One number of argument i."""
        return self.builder.load(self.builder.gep(self.data(i), [position]))

    def vector(self, i: int, position: Any, kind: Any = _FLOATS) -> Any:
        """Pointer to the vector number ``position`` of argument i."""
        start = self.builder.mul(position, position.type(LANES))
        return self.builder.bitcast(self.builder.gep(self.data(i), [start]), kind.as_pointer())

    def load(self, i: int, position: Any) -> Any:
        return self.builder.load(self.vector(i, position), align=8)

    def add(self, i: int, position: Any, change: Any) -> None:
        """Add to the vector number ``position`` of argument i."""
        place = self.vector(i, position)
        total = self.builder.fadd(self.builder.load(place, align=8), change)
        self.builder.store(total, place, align=8)

    def variable(self, start: Any) -> Any:
        place = cgutils.alloca_once(self.builder, start.type)  # type: ignore[no-untyped-call]  # no stubs
        self.builder.store(start, place)
        return place

    def spread(self, scalar: Any) -> Any:
        """The same number in every lane."""
        vector = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
        first = self.builder.insert_element(vector, scalar, ir.IntType(32)(0))
        return self.builder.shuffle_vector(first, vector, _FIRST)

    def actions(self, i: int, position: Any) -> Any:
        """The actions of a state in every lane."""
        kind = ir.VectorType(ir.IntType(self.kinds[i].dtype.bitwidth), LANES)
        return self.builder.load(self.vector(i, position, kind), align=1)

    def action(self, number: Any, like: Any) -> Any:
        """The same action in every lane."""
        return self.spread(self.builder.trunc(number, like.type.element))

    def any(self, lanes: Any) -> Any:
        """Whether a condition holds in some lane."""
        bits = self.builder.bitcast(lanes, _BITS)
        return self.builder.icmp_unsigned("!=", bits, _BITS(0))

    def place(self, number: Any) -> Any:
        """An index as wide as a pointer."""
        return number if number.type.width == 64 else self.builder.zext(number, ir.IntType(64))

    @contextmanager
    def loop(self, begin: Any, end: Any) -> Iterator[Any]:
        step = begin.type(1)
        with cgutils.for_range_slice(self.builder, begin, end, step) as (position, _):
            yield position

    @contextmanager
    def successors(self, indptr: int, indices: int, data: int, row: Any) -> Iterator[Any]:
        """Loop over the successors of a row: state and probability, the latter in every lane."""
        after = self.builder.add(row, row.type(1))
        begin, end = (self.place(self.number(indptr, at)) for at in (row, after))
        with self.loop(begin, end) as entry:
            state = self.place(self.number(indices, entry))
            yield state, self.spread(self.number(data, entry))


@intrinsic
def _back_up(context, state, n_actions, mask, indptr, indices, data, gains, later, now, choice):  # type: ignore[no-untyped-def]  # read by numba
    """Write the best available action of a state in every lane, and its value into ``now``.

    ``gains`` and ``later`` hold a vector per pair of state and action, and per state.
    """
    size = types.intp
    signature = types.void(size, size, mask, indptr, indices, data, gains, later, now, choice)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        state, n_actions = arguments[:2]
        label = ir.IntType(signature.args[9].dtype.bitwidth)
        labels = ir.VectorType(label, LANES)
        best, noted = code.variable(_LOWEST), code.variable(ir.Constant(labels, [0] * LANES))
        with code.loop(state.type(0), n_actions) as action:
            row = builder.add(builder.mul(state, n_actions), action)
            available = builder.icmp_unsigned("!=", code.number(2, row), ir.IntType(8)(0))
            with builder.if_then(available):
                value = code.variable(code.load(6, row))
                with code.successors(3, 4, 5, row) as (successor, weight):
                    change = builder.fmul(code.load(7, successor), weight)
                    builder.store(builder.fadd(builder.load(value), change), value)
                new, old = builder.load(value), builder.load(best)
                better = builder.fcmp_ordered(">", new, old)
                builder.store(builder.select(better, new, old), best)
                number = code.spread(builder.trunc(action, label))
                builder.store(builder.select(better, number, builder.load(noted)), noted)
        found = builder.load(best)
        none = builder.fcmp_ordered("==", found, _LOWEST)  # no action: never reached
        builder.store(builder.select(none, _ZEROS, found), code.vector(8, state), align=8)
        builder.store(builder.load(noted), code.vector(9, state, labels), align=1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _move_on(context, state, n_actions, choice, indptr, indices, data, current, following, held):  # type: ignore[no-untyped-def]  # read by numba
    """Move the probability of a state on to its successors, in every lane by the action chosen.

    It is added to ``following`` and to ``held``, both with a vector per state.
    """
    size = types.intp
    signature = types.void(size, size, choice, indptr, indices, data, current, following, held)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        state, n_actions = arguments[:2]
        here = code.load(6, state)
        there = builder.fcmp_unordered("!=", here, _ZEROS)
        chosen = code.actions(2, state)
        with builder.if_then(code.any(there)):
            code.add(8, state, here)
            with code.loop(state.type(0), n_actions) as action:
                taken = builder.icmp_signed("==", chosen, code.action(action, chosen))
                with builder.if_then(code.any(builder.and_(taken, there))):
                    moved = builder.select(taken, here, _ZEROS)
                    row = builder.add(builder.mul(state, n_actions), action)
                    with code.successors(3, 4, 5, row) as (successor, weight):
                        code.add(7, successor, builder.fmul(moved, weight))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _settle(context, state, n_actions, before, now, held, visits):  # type: ignore[no-untyped-def]  # read by numba
    """Where the action of a state changes, add what is held to the visits of the action before.

    Actions seldom change from one time to the next, so this is much less work than counting the
    visits of every pair of state and action each time.
    """
    size = types.intp
    signature = types.void(size, size, before, now, held, visits)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        state, n_actions = arguments[:2]
        old = code.actions(2, state)
        changed = builder.icmp_signed("!=", old, code.actions(3, state))
        with builder.if_then(code.any(changed)):
            total = code.load(4, state)
            kept = builder.select(changed, _ZEROS, total)
            builder.store(kept, code.vector(4, state), align=8)
            with code.loop(state.type(0), n_actions) as action:
                same = builder.icmp_signed("==", old, code.action(action, old))
                part = builder.and_(changed, same)
                with builder.if_then(code.any(part)):
                    row = builder.add(builder.mul(state, n_actions), action)
                    code.add(5, row, builder.select(part, total, _ZEROS))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _turn_square(context, choice, state, out, start, stride):  # type: ignore[no-untyped-def]  # read by numba
    """Write the actions of sixteen states, lane i from ``start + i * stride`` on.

    Four times every row is interleaved with the one eight further on, which transposes a square.
    """
    size = types.intp
    signature = types.void(choice, size, out, size, size)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        _, state, _, start, stride = arguments
        kind = ir.VectorType(ir.IntType(signature.args[0].dtype.bitwidth), LANES)
        half, number = LANES // 2, ir.IntType(32)
        lines = [
            builder.load(code.vector(0, builder.add(state, state.type(i)), kind), align=1)
            for i in range(LANES)
        ]
        low = [i // 2 + LANES * (i % 2) for i in range(LANES)]
        orders = [
            ir.Constant(ir.VectorType(number, LANES), [i + shift for i in low])
            for shift in (0, half)
        ]
        for _ in range(LANES.bit_length() - 1):
            lines = [
                builder.shuffle_vector(lines[i], lines[i + half], order)
                for i in range(half)
                for order in orders
            ]
        for i, line in enumerate(lines):
            begin = builder.add(start, builder.mul(stride, stride.type(i)))
            place = builder.bitcast(builder.gep(code.data(2), [begin]), kind.as_pointer())
            builder.store(line, place, align=1)
        return context.get_dummy_value()

    return signature, generate


@njit(cache=True, nogil=True)
def backward(indptr, indices, data, gains, mask, choices, now, later):  # type: ignore[no-untyped-def]  # compiled by numba
    """Fill the best actions ``choices`` (H, S x LANES); return the values of all states."""
    n = now.size // LANES
    n_actions = mask.size // n
    later[:] = 0.0
    for t in range(choices.shape[0] - 1, -1, -1):
        for s in range(n):
            _back_up(s, n_actions, mask, indptr, indices, data, gains, later, now, choices[t])  # type: ignore[call-arg]  # numba passes its context
        now, later = later, now
    return later


@njit(cache=True, nogil=True)
def forward(indptr, indices, data, rewards, choices, s0, current, following, held, visits):  # type: ignore[no-untyped-def]  # compiled by numba
    """Return the value vectors (LANES, k) of the policies in ``choices`` from state s0."""
    n = current.size // LANES
    pairs, k = rewards.shape
    actions = pairs // n
    current[:], held[:], visits[:] = 0.0, 0.0, 0.0
    current[s0 * LANES : (s0 + 1) * LANES] = 1.0
    for t in range(choices.shape[0]):
        following[:] = 0.0
        for s in range(n):
            if t > 0:
                _settle(s, actions, choices[t - 1], choices[t], held, visits)  # type: ignore[call-arg]  # numba passes its context
            _move_on(s, actions, choices[t], indptr, indices, data, current, following, held)  # type: ignore[call-arg]  # the same
        current, following = following, current
    nothing = np.full_like(choices[0], -1)
    for s in range(n):
        _settle(s, actions, choices[-1], nothing, held, visits)  # type: ignore[call-arg]  # the same
    values = np.zeros((LANES, k))
    for pair in range(pairs):
        for i in range(LANES):
            weight = visits[pair * LANES + i]
            if weight != 0.0:
                for j in range(k):
                    values[i, j] += weight * rewards[pair, j]
    return values


@njit(cache=True, nogil=True)
def take_apart(choices, policies):  # type: ignore[no-untyped-def]  # compiled by numba
    """Write the actions of all lanes (H, S, LANES) into the policies (m, H, S)."""
    m, horizon, n = policies.shape
    flat = policies.reshape(-1)
    whole = n - n % LANES if m == LANES else 0
    for t in range(horizon):
        for s in range(0, whole, LANES):
            _turn_square(choices[t], s, flat, t * n + s, horizon * n)  # type: ignore[call-arg]  # numba passes its context
        for i in range(m):
            for s in range(whole, n):
                policies[i, t, s] = choices[t, s * LANES + i]
