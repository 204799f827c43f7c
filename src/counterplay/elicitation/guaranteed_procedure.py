"""The guaranteed procedure, step by step: benchmark, basis, ratios, preference, plan.

Source: Theorem 8.1; docs/theory/08-elicitation.md, "Proposition 8.E: regret linear in the
precision".
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.elicitation import bounds
from counterplay.elicitation.basis import Basis
from counterplay.elicitation.benchmark_policy import Benchmark, benchmark_procedure
from counterplay.elicitation.comparisons import LoggedAnswer, Procedure
from counterplay.elicitation.estimators import (
    Delta,
    PreferenceEstimate,
    nonnegative_preference,
    solve_preference,
    truncated_preference,
    truncation_delta,
)
from counterplay.elicitation.precision import PrecisionEstimate, precision_procedure
from counterplay.elicitation.ratios import RatioEstimates, ratio_procedure, refine_procedure
from counterplay.elicitation.results import ElicitationResult
from counterplay.elicitation.shared_bases import SharedBases
from counterplay.errors import AssumptionWarning, ContradictionError


@dataclass(frozen=True)
class ProcedureSettings:
    """Which estimator and which extra questions; the full estimator without extras by default."""

    estimator: str = "full"
    delta: Delta = "auto"
    refine: int = 0
    precision: bool = False
    nonneg: bool = False
    max_queries: int | None = None


def guaranteed_procedure(
    shared: SharedBases, params: ProcedureSettings
) -> Procedure[ElicitationResult]:
    """Benchmark, ratios, precision and refinement, then the recommendation."""
    log: list[LoggedAnswer] = []
    measured = yield from _logged(_measure(shared, params), log)
    return _recommend(shared, params, measured, tuple(log))


@dataclass(frozen=True)
class _Measured:
    """Everything the questions revealed."""

    benchmark: Benchmark
    basis: Basis
    ratios: RatioEstimates
    precision: PrecisionEstimate | None
    errors: FloatArray
    n_queries: int


def _logged(procedure: Procedure[_Measured], log: list[LoggedAnswer]) -> Procedure[_Measured]:
    try:
        query = next(procedure)
        while True:
            answer = yield query
            log.append(query.answered(answer))
            query = procedure.send(answer)
    except StopIteration as stop:
        measured: _Measured = stop.value
        return measured
    except ContradictionError as error:
        raise ContradictionError(str(error), conflict=tuple(log)) from None


def _measure(shared: SharedBases, params: ProcedureSettings) -> Procedure[_Measured]:
    items, values = shared.single_best()
    room = shared.showroom
    cap = params.max_queries
    benchmark = yield from _capped_benchmark(shared, items, values, cap)
    asked = benchmark.n_queries
    basis = shared.basis(benchmark.index)
    left = None if cap is None else max(0, cap - asked)
    complete = benchmark.n_queries == room.k - 1
    ratios = yield from ratio_procedure(
        room, basis.items, basis.values, max_queries=left, strict=complete
    )
    asked += ratios.n_queries
    precision = None
    wanted = params.precision or (params.delta == "auto" and params.estimator == "truncated")
    if wanted and (cap is None or asked < cap):
        precision = yield from precision_procedure(room, basis.items[0], basis.values[0])
        asked += 0 if precision is None else precision.n_queries
    if params.refine and cap is None:
        bracket = None if precision is None else (precision.low, precision.high)
        before = ratios.n_queries
        ratios = yield from refine_procedure(
            room, basis.items, basis.values, ratios, params.refine, bracket
        )
        asked += ratios.n_queries - before
    errors = _errors(ratios, precision, complete)
    return _Measured(benchmark, basis, ratios, precision, errors, asked)


def _capped_benchmark(
    shared: SharedBases, items: list[Any], values: FloatArray, cap: int | None
) -> Procedure[Benchmark]:
    """The benchmark questions, or as many of them as the cap allows."""
    n = len(items) if cap is None else min(len(items), cap + 1)
    benchmark = yield from benchmark_procedure(shared.showroom, items[:n], values[:n])
    return benchmark


def _errors(
    ratios: RatioEstimates, precision: PrecisionEstimate | None, complete: bool
) -> FloatArray:
    """Guaranteed errors: from the brackets and, where it was measured, from the precision.

    The best of k single options is worth at most x + eps after the complete benchmark questions,
    so every ratio is at most k (1 + eps/x), below 2k once x > eps is known. Without that, a ratio
    that no answer limits from above can be anything: its error is infinite.
    """
    errors = ratios.errors
    if not (complete and ratios.worth_shown):
        errors[~ratios.limited] = np.inf
    if precision is not None:
        for i, ratio in enumerate(ratios.ratios):
            if ratio.settled and not ratio.refined:  # the user said "same" at the estimate
                errors[i] = min(errors[i], bounds.ratio_error(ratio.estimate, precision.high))
    return errors


def _recommend(
    shared: SharedBases,
    params: ProcedureSettings,
    measured: _Measured,
    log: tuple[LoggedAnswer, ...],
) -> ElicitationResult:
    basis, ratios = measured.basis, measured.ratios
    alpha = ratios.alpha_hat
    w_hat, d_used = _estimate(shared, params, measured)
    notes = []
    if params.nonneg:
        projected = nonnegative_preference(basis.values, alpha, measured.errors)
        if projected is None:
            notes.append("no non-negative weights explain the answers; the raw estimate is used")
        else:
            w_hat = projected
    items, values = shared.oracle.argmax(w_hat[None])
    deviation = np.abs(basis.values[1:] @ w_hat - alpha) + measured.errors
    certificate = 1.0  # options cannot be worse than worthless
    if np.isfinite(deviation).all():
        coefficients = shared.coefficients(measured.benchmark.index)
        certificate = min(1.0, bounds.certificate(coefficients, deviation))
    notes += _warnings(shared, measured, certificate)
    estimate = PreferenceEstimate(
        w_hat,
        basis.values,
        basis.directions,
        basis.extents,
        alpha,
        measured.benchmark.index,
        measured.n_queries,
        measured.errors,
        d_used,
    )
    return ElicitationResult(
        item=items[0],
        value=values[0],
        regret_certificate=certificate,
        n_queries=len(log),
        method="guaranteed",
        label=shared.showroom.label(items[0], values[0]),
        objective_names=tuple(shared.showroom.objective_name(j) for j in range(shared.oracle.k)),
        answers=log,
        weights=estimate.weights(),
        estimate=estimate,
        single_values=shared.single_best()[1],
        notes=tuple(notes),
        row=shared.showroom.row(items[0]),
    )


def _estimate(
    shared: SharedBases, params: ProcedureSettings, measured: _Measured
) -> tuple[FloatArray, int]:
    basis, alpha = measured.basis, measured.ratios.alpha_hat
    if params.estimator == "full":
        return solve_preference(basis.values, alpha), basis.d
    k = shared.oracle.k
    high = 1.0 if measured.precision is None else measured.precision.high
    delta = truncation_delta(
        params.delta,
        k=k,
        d=basis.d,
        scale=shared.oracle.scale,
        norm_w=1.0 / float(np.linalg.norm(basis.values[0])),
        ratio_error=2 * k * high,
    )
    return truncated_preference(basis.values, alpha, basis.extents, delta)


def _warnings(shared: SharedBases, measured: _Measured, certificate: float) -> list[str]:
    notes = []
    if measured.ratios.benchmark_worthless:
        notes.append(
            "the person cannot tell the yardstick from nothing, so nothing could be measured; any "
            f"option is within {2 * shared.oracle.k} times the person's precision of the best"
        )
        warnings.warn(notes[-1], AssumptionWarning, stacklevel=2)
    elif certificate >= 1.0 and measured.basis.d > 1:
        notes.append("the person's precision is too coarse for these options: no useful guarantee")
    return notes + sampling_notes(shared)


def sampling_notes(shared: SharedBases) -> list[str]:
    """What a person should know about values that were estimated from samples."""
    error = getattr(getattr(shared.oracle, "mdp", None), "value_error", 0.0)
    if not error:
        return []
    return [
        f"values were estimated from samples and may be off by {error:.3g} in each objective "
        "(more if something rarer was missed); add twice this times the sum of the weights to the "
        "regret"
    ]
