from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.principal import PersuasionOracle, bounds
from counterplay.principal.instances import prosecutor_game, random_persuasion_game
from counterplay.principal.lab import (
    KGRule,
    PersuasionGeometry,
    StabilizedPersuasion,
    best_response,
    is_stable,
)

XS = (0.01, 0.05, 0.2, 0.5, 1.0)


def priors(geometry, beta, rng):
    """Both ends, points near them, points near every edge, random points."""
    inner = geometry.edges[1:-1]
    near = np.concatenate([inner, inner + 0.4 * beta, inner - 0.4 * beta, inner + beta])
    return np.concatenate([[0.0, 1.0, beta / 3, 1 - beta / 3], near, rng.random(3)])


def answered(game, scheme, mu):
    """Utilities of both sides under a scheme, and the best response; the value is v[star]."""
    U, V = game.UV([scheme], [1 - mu, mu])
    return U[0, 0], V[0, 0], best_response(game, scheme, [1 - mu, mu])


def is_stable_for_all(u, v, star, margins_and_harms):
    """The definition of stability, for several (margin, harm) pairs at once."""
    margin, harm = np.array(margins_and_harms).T[:, :, None]
    others = np.arange(u.size) != star
    safe = (u <= u[star] - margin + 1e-11) | (v >= v[star] - harm - 1e-11)
    return safe[:, others].all()


@pytest.mark.claim("07.08")
def test_stabilised_and_rounded_schemes_on_500_games():
    rng = np.random.default_rng(0)
    worst = 0.0
    for seed in range(500):
        game = random_persuasion_game(2 + seed % 3, random_state=seed)
        geometry = PersuasionGeometry(game)
        C, c1 = geometry.C, geometry.c1
        beta = float(rng.uniform(0.05, 0.99)) * C / 4
        stable = StabilizedPersuasion(geometry, beta)
        rounded = PersuasionOracle(game, beta=beta, discretization="rounding")
        root = math.sqrt(rounded.delta)
        assert rounded.delta <= beta**2 / 16 * (1 + 1e-9)
        for mu in priors(geometry, beta, rng):
            fine = answered(game, stable.scheme(mu), mu)
            coarse = answered(game, rounded.scheme(mu), mu)
            reached, near = fine[1][fine[2]], coarse[1][coarse[2]]
            assert reached == pytest.approx(stable.value(mu), abs=1e-9)
            best = geometry.v_star(mu)
            assert reached >= best - bounds.stabilised_loss(beta, C) - 1e-9
            assert near >= reached - 2 * root - 1e-9
            assert near >= best - bounds.rounded_loss(beta, C, rounded.delta) - 1e-9
            worst = max(worst, (best - reached) / bounds.stabilised_loss(beta, C))
            assert is_stable_for_all(*fine, [(x * c1 * beta, x) for x in XS])
            halved = [(x * c1 * beta / 2, max(x, root + rounded.delta / 2)) for x in XS]
            assert is_stable_for_all(*coarse, halved)
    assert worst > 0.5  # the constant cannot be halved


@pytest.mark.claim("07.32")
def test_log_odds_grid_is_stable_and_small():
    rng = np.random.default_rng(1)
    for seed in range(150):
        game = random_persuasion_game(2 + seed % 4, random_state=1000 + seed)
        geometry = PersuasionGeometry(game)
        C, c1 = geometry.C, geometry.c1
        beta = float(rng.uniform(0.05, 0.99)) * C / 4
        oracle = PersuasionOracle(game, beta=beta, discretization="logit")
        for mu in priors(geometry, beta, rng):
            u, v, star = answered(game, oracle.scheme(mu), mu)
            lost = geometry.v_star(mu) - v[star]
            assert lost <= bounds.log_odds_loss(beta, C) + 1e-9
            assert is_stable_for_all(u, v, star, [(x * c1 * beta / 2, x) for x in XS])
        for mu in np.linspace(0, 1, 400):
            oracle.scheme(mu)
        assert len(oracle.policies) <= oracle.n_policies
        assert oracle.n_policies <= math.log(1 / (beta * C)) / (2 * beta) + 4


@pytest.mark.claim("07.09")
def test_schemes_are_bayes_plausible():
    rng = np.random.default_rng(2)
    for seed in range(60):
        game = random_persuasion_game(2 + seed % 4, random_state=seed)
        geometry = PersuasionGeometry(game)
        beta = 0.8 * geometry.C / 4
        stable = StabilizedPersuasion(geometry, beta)
        rounded = PersuasionOracle(game, beta=beta, discretization="rounding")
        logit = PersuasionOracle(game, beta=beta, discretization="logit")
        for mu in priors(geometry, beta, rng):
            pi = np.array([1 - mu, mu])
            points, weights = stable.posterior_split(mu)
            assert weights @ points == pytest.approx(mu, abs=1e-12)
            assert ((weights >= -1e-15) & (weights <= 1 + 1e-15)).all()
            made = (
                geometry.optimal_scheme(mu),
                stable.scheme(mu),
                rounded.scheme(mu),
                logit.scheme(mu),
            )
            for scheme in made:
                assert scheme.matrix.min() >= 0.0
                assert scheme.matrix.max() <= 1.0
                assert scheme.matrix.sum(axis=0) == pytest.approx([1.0, 1.0], abs=1e-12)
                chances = scheme.signal_probabilities(pi)
                beliefs = np.nan_to_num(scheme.posteriors(pi)[:, 1])
                assert chances @ beliefs == pytest.approx(mu, abs=1e-12)
            steps = rounded.scheme(mu).matrix * rounded.parts
            assert steps == pytest.approx(np.rint(steps), abs=1e-6)


@pytest.mark.claim("07.09")
def test_posteriors_of_the_stabilised_scheme_are_its_points():
    for seed in range(20):
        game = random_persuasion_game(3, random_state=seed)
        stable = StabilizedPersuasion(game, 0.1 * PersuasionGeometry(game).C)
        for mu in (0.05, 0.3, 0.61, 0.94):
            scheme = stable.scheme(mu)
            points, _ = stable.posterior_split(mu)
            if len(scheme.support) == 2:
                found = np.sort(scheme.posteriors([1 - mu, mu])[list(scheme.support), 1])
                assert found == pytest.approx(points, abs=1e-9)


@pytest.mark.claim("07.11")
def test_prosecutor_has_1602_rounded_schemes():
    oracle = PersuasionOracle(prosecutor_game(), beta=0.1, discretization="rounding")
    keys = {oracle._rounded_key(mu) for mu in np.linspace(0, 1, 25_001).tolist()}
    assert len(keys) == 1602
    assert len(keys) <= bounds.staircase_policies(3, oracle.parts)


@pytest.mark.claim("07.11")
def test_staircase_count_bounds_the_outputs():
    for seed in range(4):
        game = random_persuasion_game(3, random_state=seed)
        geometry = PersuasionGeometry(game)
        oracle = PersuasionOracle(game, beta=0.24 * geometry.C, discretization="rounding")
        keys = {oracle._rounded_key(mu) for mu in np.linspace(0, 1, 20_001).tolist()}
        extreme = len(oracle.stabilized.extreme[0])
        assert len(keys) <= bounds.staircase_policies(extreme, oracle.parts) == oracle.n_policies


def test_unstable_rule_returns_the_classical_scheme():
    rule = KGRule(prosecutor_game())
    scheme, action = rule.recommend([0.7, 0.3])
    assert scheme == PersuasionGeometry(prosecutor_game()).optimal_scheme(0.3)
    assert prosecutor_game().action_label(scheme, action) == "Acquit->Acquit, Convict->Convict"
    assert not is_stable(prosecutor_game(), scheme, [0.7, 0.3], 0.01, 0.01)
