"""Theorems A to C: old answers protect those who are not asked, and the verdict is true."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from counterplay.federated import (
    ADAGD,
    CallableObjective,
    FedAvg,
    FederationHistory,
    LayeredObjective,
    LocalParties,
    SafeStep,
    Trust,
    train,
)
from counterplay.federated.anchor import Anchor
from counterplay.federated.cuts import Cuts
from counterplay.federated.replies import Answer
from federated.worlds import HuberWorld, SampleOnly, huber


def sampled(seed: int, fraction: float, steps: float = 1.0, **more: Any) -> FederationHistory:
    world = HuberWorld(seed)
    options = {"convex": True, "random_state": seed, "rounds": 1000} | more
    rule = options.pop("rule", SafeStep(world.delta))
    return train(world.parties(), rule, step_size=steps / world.H, fraction=fraction, **options)


def room(run: FederationHistory, world: HuberWorld) -> float:
    """Smallest distance to a target at any broadcast model, in margins."""
    frame = run.to_frame()
    return float(((frame["loss"] - frame["threshold"]) / world.delta).min())


@pytest.mark.claim("23.16")
@pytest.mark.parametrize("fraction", [0.25, 0.5])
@pytest.mark.parametrize("steps", [0.5, 1.0, 5.0])
def test_nobody_leaves_whoever_is_asked(fraction: float, steps: float) -> None:
    """Theorem 23.A. All 20 problems are in the study; models between answers are checked here."""
    for seed in range(2):
        world, seen = HuberWorld(seed), []
        parties = world.parties()
        objective = parties.model
        function = objective.function

        def watch(w: Any, *rest: Any, function: Any = function, seen: Any = seen) -> Any:
            if not seen or w is not seen[-1]:
                seen.append(w)
            return function(w, *rest)

        objective.function = watch
        run = train(
            parties, SafeStep(world.delta), step_size=steps / world.H, fraction=fraction,
            convex=True, random_state=seed,
        )  # fmt: skip
        excess = np.array([world.losses(w) for w in seen]) - world.eps
        assert excess.min() / world.delta >= 1.0 - 1e-9
        assert run.status == "converged"
        assert excess[-1].max() <= 2.0 * world.delta
        assert run.guarantee == "proved (convex)"
        assert not run.remarks


@pytest.mark.claim("23.17")
def test_converged_is_true_and_the_rule_on_the_sample_alone_is_not() -> None:
    claims = false = lost = 0
    for seed in range(5):
        world = HuberWorld(seed)
        run = sampled(seed, 0.25)
        assert run.status == "converged"
        assert run.left == {}
        assert run.final_losses.max() <= world.eps + 2 * world.delta
        old = sampled(seed, 0.25, rule=SampleOnly(SafeStep(world.delta)))
        claims += old.status == "converged"
        stayed = [p for p in old.final if p not in old.left]
        false += old.status == "converged" and bool(
            max((old.final[p] for p in stayed), default=0.0) > world.eps + 2 * world.delta
        )
        lost += bool(old.left)
    assert false >= 0.8 * claims > 0
    assert lost


@pytest.mark.claim("23.18")
def test_fewer_answers_than_with_everybody_in_every_round() -> None:
    used = {
        fraction: np.median([sampled(seed, fraction).answers for seed in range(4)])
        for fraction in (0.25, 0.5, 1.0)
    }
    assert used[0.25] <= 0.4 * used[1.0]
    assert used[0.5] <= 0.65 * used[1.0]


@pytest.mark.claim("23.19")
def test_the_seed_alone_decides_who_is_asked() -> None:
    runs = []
    for seed, noise in ((0, 1), (0, 2), (1, 1)):
        random.seed(noise)
        np.random.seed(noise)  # noqa: NPY002  # must not matter
        runs.append(sampled(3, 0.25, random_state=seed, rounds=30).w)
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_ada_gd_with_cuts_keeps_everybody() -> None:
    for seed in range(2):
        world = HuberWorld(seed)
        run = sampled(seed, 0.25, steps=0.5, rule=ADAGD(world.delta), rounds=400)
        assert run.left == {}
        assert room(run, world) >= 1.0 - 1e-9
        assert run.final_losses.mean() < 0.6 * world.losses(world.w0).mean()


def parabolas(**more: Any) -> FederationHistory:
    """``(w - 1)^2`` and ``(w - 2)^2`` from 0: the first party is served long before the second."""

    def square(w: Any, rows: Any, labels: Any, weights: Any) -> tuple[float, Any]:
        return float((w[0] - rows[0, 0]) ** 2), 2.0 * (w - rows[0])

    data = {f"p{m}": (np.array([[float(m)]]), [0]) for m in (1, 2)}
    parties = LocalParties(CallableObjective(1, square), data, threshold=0.1)
    return train(parties, SafeStep(0.01), step_size=0.2, convex=True, rounds=300, **more)


@pytest.mark.claim("23.35")
def test_an_honest_party_that_blocks_is_named_and_keeps_its_veto() -> None:
    run = parabolas()
    assert run.status == "stalled"
    assert run.left == {}
    assert "p1 blocked the last" in run.summary()
    assert run.guarantee == "proved (convex)"
    without = parabolas(trust=Trust(veto=20))
    assert list(without.left) == ["p1"]
    assert "p1 blocked 20 rounds; it is no longer protected." in without.summary()
    assert without.guarantee == "proved (convex), except p1"


def network(seed: int = 0) -> LocalParties:
    rng = np.random.default_rng(seed)
    data = {f"p{m}": (3 * rng.normal(size=(6, 4)), rng.integers(0, 2, 6)) for m in range(4)}
    return LocalParties(LayeredObjective([4, 8, 2]), data, threshold=0.1)


@pytest.mark.claim("23.36")
def test_a_network_is_never_called_proved() -> None:
    options: dict[str, Any] = {"step_size": 0.5, "fraction": 0.5, "rounds": 60}
    honest = train(network(), SafeStep(0.02, cap=0.5), random_state=0, **options)
    assert honest.guarantee == "curvature estimated"
    claimed = train(network(), SafeStep(0.02, cap=0.5), random_state=0, convex=True, **options)
    assert claimed.guarantee == "curvature estimated"
    (told,) = claimed.remarks[:1]
    assert told.split()[0] in claimed.final
    assert "below its lower bound in round" in told
    first = train(network(), SafeStep(0.02, cap=0.5), step_size=0.5, rounds=1, convex=True)
    assert first.guarantee == "proved (convex)"  # nothing has spoken against it yet
    full = train(network(), SafeStep(0.02, cap=0.5), step_size=0.5, rounds=3)
    assert full.guarantee.startswith("not proved")
    assert train(network(), FedAvg(), step_size=0.5, rounds=2).guarantee == "none"


@pytest.mark.claim("23.37")
def test_a_forced_rollback_keeps_everybody_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Theorem 23.B: the comparison is made to fail, the run goes on from the full step."""
    world, undone = HuberWorld(2), []
    holds, back = Anchor.holds, Anchor.back

    def fails(self: Anchor, cuts: Cuts, step_size: float) -> bool:
        return holds(self, cuts, step_size) and (self.rounds <= 1 or len(undone) >= 2)

    def went_back(self: Anchor, cuts: Cuts) -> Any:
        w = back(self, cuts)
        undone.append((w, self.w + self.step, dict(self.cuts), cuts.copy()))
        return w

    monkeypatch.setattr(Anchor, "holds", fails)
    monkeypatch.setattr(Anchor, "back", went_back)
    run = sampled(2, 0.25, full_every=5)
    assert len(undone) == 2
    for w, expected, taken, now in undone:
        assert np.array_equal(w, expected)
        assert now == taken  # the cuts of the anchor, all of them
        bounds = [cut.bound(w) for cut in now.values()]
        assert min(bounds) >= world.eps + world.delta * (1.0 - 1e-9)  # standing still is allowed
    assert run.status == "converged"
    assert run.left == {}
    assert room(run, world) >= 1.0 - 1e-9
    assert run.remarks == ("2 periods fell too little and were replaced by one full step each.",)


@pytest.mark.claim("23.16")
def test_no_period_is_undone_where_the_theorem_applies() -> None:
    for seed in range(3):
        run = sampled(seed, 0.25, full_every=4)
        means = [gauge.mean_loss for gauge in run.rounds if len(gauge.present) == 8]
        assert all(later < sooner for sooner, later in zip(means, means[1:]))
        assert run.remarks == ()


def test_a_bound_is_exact_at_its_model_and_below_a_convex_loss_elsewhere() -> None:
    world, cuts = HuberWorld(0), Cuts()
    rng = np.random.default_rng(0)
    even = np.full(4, 0.25)
    v = rng.normal(size=36)
    loss, gradient = huber(v, world.rows[0], None, even)
    cuts.take(7, v, Answer(loss, gradient))
    assert cuts.bounds(v, [7])[0] == loss
    assert cuts.fresh(7, v.copy())
    for _ in range(50):
        w = v + rng.normal(size=36)
        assert cuts.bounds(w, [7])[0] <= huber(w, world.rows[0], None, even)[0] + 1e-12
        assert not cuts.fresh(7, w)


def test_an_old_bound_that_was_too_high_raises_the_curvature() -> None:
    cuts, v, w = Cuts(), np.zeros(2), np.array([1.0, 0.0])
    cuts.take(0, v, Answer(1.0, np.array([-1.0, 0.0])))
    assert cuts.bounds(w, [0])[0] == 0.0
    above = cuts.take(0, w, Answer(0.0, np.array([0.0, 0.0])))
    assert above == 0.0
    cuts.take(0, v, Answer(1.0, np.array([2.0, 0.0])))
    missed = cuts.take(0, w, Answer(0.5, np.zeros(2)))
    assert missed == 2.5
    caution = cuts.caution(w, [0], "curvature", lambda node: False)
    assert caution.curvature[0] == 5.0  # 2 * 2.5 / 1
    assert caution.slack(0.2) == pytest.approx(0.5 * 5.0 * 0.2**2)
