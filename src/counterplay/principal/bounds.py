"""Every guarantee of the chapter as a number: rates, tunings, event counts, lower bounds.

Where the thesis prints a constant or a factor that does not follow from its own proof, the
corrected one is used here; docs/theory/07-principal.md, "Errata", lists them.
Source: Propositions 7.A to 7.F, Theorems 7.1 to 7.5, see docs/theory/07-principal.md.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_choice,
    check_open_fraction,
    check_positive_int,
    check_real,
)
from counterplay.errors import InvalidInputError

Tuning: TypeAlias = Literal["balanced", "thesis"]
TUNINGS: tuple[Tuning, ...] = ("balanced", "thesis")


@checked
def linear_contract_tuning(horizon: int, tuning: Tuning = "balanced") -> tuple[float, float]:
    """Return (beta, delta) for linear contracts; delta is one over an integer.

    ``"balanced"``: both T^(-1/5), for regret of order T^(-1/5) (ours). ``"thesis"``: T^(-1/4) and
    T^(-1/8), for regret of order T^(-1/8).

    Examples
    --------
    >>> [round(x, 3) for x in linear_contract_tuning(2000)]
    [0.219, 0.2]
    """
    T = check_positive_int(horizon, "horizon")
    check_choice(tuning, "tuning", TUNINGS)
    beta, delta = (T**-0.2, T**-0.2) if tuning == "balanced" else (T**-0.25, T**-0.125)
    return beta, 1.0 / math.ceil(1.0 / delta - 1e-9)


@checked
def linear_contract_rate(tuning: Tuning = "balanced") -> float:
    """Exponent of T in the regret bound for linear contracts.

    Examples
    --------
    >>> linear_contract_rate(), linear_contract_rate("thesis")
    (-0.2, -0.125)
    """
    check_choice(tuning, "tuning", TUNINGS)
    return -0.2 if tuning == "balanced" else -0.125


@checked
def linear_contract_loss(n_actions: int, beta: float, delta: float) -> float:
    """Most that the stable linear contract loses against the tempting one: n (beta + delta).

    Examples
    --------
    >>> round(linear_contract_loss(2, 0.1, 0.02), 2)
    0.24
    """
    width = check_real(beta, "beta", low=0.0) + check_real(delta, "delta", low=0.0)
    return check_positive_int(n_actions, "n_actions") * width


@checked
def bias_level(
    start: float, n_rates: int, delta: float, *, tolerance: float = 1.0, weight: float = 1.0
) -> float:
    """Return L = ln((1 + tolerance) K G / (delta weight)), the logarithm in :func:`bias_bound`.

    ``start`` is K = 2 |Y| sum of weights, ``n_rates`` is G. ``tolerance`` is the gap allowed per
    round as a multiple of K / T. ``weight`` is 1 if the number of events is known and
    ``1 / (i (i + 1))`` for the i-th visited event otherwise.

    Examples
    --------
    >>> round(bias_level(start=378, n_rates=7, delta=0.05), 2)
    11.57
    >>> round(bias_level(start=378, n_rates=7, delta=0.05, tolerance=0.1), 2)
    10.97
    """
    K = check_real(start, "start", low=0.0, open_low=True)
    G = check_positive_int(n_rates, "n_rates")
    share = check_real(weight, "weight", low=0.0, high=1.0, open_low=True)
    budget = (1 + check_real(tolerance, "tolerance", low=0.0)) * K
    return math.log(budget * G / (check_open_fraction(delta, "delta") * share))


@checked
def bias_bound(Q: float, level: float, n_rates: int) -> float:
    """High-probability bound on |R| of one event and outcome: min_k (eta_k Q + L / eta_k).

    ``level`` is L (:func:`bias_level`) and ``eta_k = 2^-k`` for k = 1..G. It is at most
    ``max(4 L, 2.13 sqrt(Q L))`` as long as the smallest rate reaches sqrt(L / Q).

    Examples
    --------
    >>> round(bias_bound(Q=1000, level=bias_level(378, 7, 0.05), n_rates=7), 1)
    217.6
    """
    check_real(Q, "Q", low=0.0)
    G, L = check_positive_int(n_rates, "n_rates"), check_real(level, "level", low=0.0)
    # beyond 1000 the first term is zero and the second one only grows
    return min(2.0**-k * Q + L * 2.0**k for k in range(1, min(G, 1000) + 1))


@checked
def bias_bound_simple(n_active: float, level: float) -> float:
    """Return max(4 L, 2.13 sqrt(n L)): the bias of an event that was active n times.

    Examples
    --------
    >>> bias_bound_simple(200, 12.0) < 0.1 * 20_000 ** 0.5 * 12.0
    True
    """
    n, L = check_real(n_active, "n_active", low=0.0), check_real(level, "level", low=0.0)
    return max(4 * L, 2.13 * math.sqrt(n * L))


@checked
def decision_events(n_output: int, n_benchmark: int, n_actions: int) -> int:
    """Number of events of the stable mechanism: (|P_O| + 2 |P0|) |A|, polynomial in everything.

    Examples
    --------
    >>> decision_events(11, 5, 3)
    63
    """
    output = check_positive_int(n_output, "n_output")
    benchmark = check_positive_int(n_benchmark, "n_benchmark")
    return (output + 2 * benchmark) * check_positive_int(n_actions, "n_actions")


@checked
def net_events(n_outcomes: int, eta: float) -> int:
    """Number of events of full calibration on an eta-net: C(1/eta + |Y| - 1, |Y| - 1).

    Examples
    --------
    >>> [net_events(n, 0.1) for n in (2, 3, 5, 10)]
    [11, 66, 1001, 92378]
    """
    n = check_positive_int(n_outcomes, "n_outcomes")
    parts = round(1 / check_real(eta, "eta", low=0.0, high=1.0, open_low=True))
    return math.comb(parts + n - 1, n - 1)


@checked
def stable_regret_rate(
    *,
    c: float,
    eps: float,
    beta: float,
    gamma: float,
    n_policies: int,
    n_benchmark: int,
    n_actions: int,
    n_states: int,
    horizon: int,
    swap_regret: float | None = None,
) -> float:
    """Order of the policy regret of the stable mechanism, without logarithms (Theorem 7.2).

    ``c + gamma + |Y| sqrt(|P0||A|/T) + (e + |Y| sqrt(|P_O||A|/T)) / beta
    + (e + |Y| sqrt(|A|/T)) / eps``, where e is the Agent's swap regret, ``sqrt(|P_O|/T)`` if None.
    The printed theorem lacks |Y| on the third term.

    Examples
    --------
    >>> round(stable_regret_rate(c=0, eps=1, beta=1, gamma=0, n_policies=1, n_benchmark=1,
    ...                          n_actions=1, n_states=1, horizon=10_000, swap_regret=0.0), 4)
    0.03
    """
    T = check_positive_int(horizon, "horizon")
    for name, size in (
        ("n_policies", n_policies),
        ("n_benchmark", n_benchmark),
        ("n_actions", n_actions),
        ("n_states", n_states),
    ):
        check_positive_int(size, name)
    check_real(c, "c", low=0.0)
    check_real(gamma, "gamma", low=0.0)
    check_real(eps, "eps", low=0.0, open_low=True)
    check_real(beta, "beta", low=0.0, open_low=True)
    e = math.sqrt(n_policies / T)
    if swap_regret is not None:
        e = check_real(swap_regret, "swap_regret", low=0.0)
    benchmark = n_states * math.sqrt(n_benchmark * n_actions / T)
    realised = (e + n_states * math.sqrt(n_policies * n_actions / T)) / beta
    counterfactual = (e + n_states * math.sqrt(n_actions / T)) / eps
    return c + gamma + benchmark + realised + counterfactual


@checked
def general_regret_bound(
    alpha_realised: float,
    alpha_benchmark: float,
    *,
    swap_regret: float,
    negative_regret: float,
    M1: float,
    M2: float,
) -> float:
    """Policy regret of the best-response mechanism under Alignment (Theorem 7.5, repaired).

    ``alpha(E4) + max alpha(E3) + 2 (M1 (swap + negative) + M2)``; the print lacks the factor 2.

    Examples
    --------
    >>> general_regret_bound(0.01, 0.02, swap_regret=0.05, negative_regret=0.0, M1=1.0, M2=0.0)
    0.13
    """
    bias = check_real(alpha_realised, "alpha_realised", low=0.0)
    bias += check_real(alpha_benchmark, "alpha_benchmark", low=0.0)
    gap = check_real(swap_regret, "swap_regret", low=0.0)
    gap += check_real(negative_regret, "negative_regret")
    M1, M2 = check_real(M1, "M1", low=0.0), check_real(M2, "M2", low=0.0)
    return bias + 2 * (M1 * gap + M2)


@checked
def secret_information_regret(first_state: Literal["M", "H"]) -> float:
    """Regret that no mechanism avoids against the secretly informed Agent: 1/16 or 1/20 per round.

    Examples
    --------
    >>> secret_information_regret("M"), secret_information_regret("H")
    (0.0625, 0.05)
    """
    check_choice(first_state, "first_state", ("M", "H"))
    return 1 / 16 if first_state == "M" else 1 / 20


@checked
def balance_threshold(horizon: int) -> float:
    """Largest imbalance of the states that the secretly informed Agent tolerates.

    ``sqrt(12 T ln(2 (1 + log2 T)^2))``.

    Examples
    --------
    >>> round(balance_threshold(1000) / 1000 ** 0.5, 1)
    8.1
    """
    T = check_positive_int(horizon, "horizon")
    return math.sqrt(12 * T * math.log(2 * (1 + math.log2(T)) ** 2))


@checked
def persuasion_tuning(
    horizon: int, discretization: Literal["rounding", "logit"], tuning: Tuning = "balanced"
) -> tuple[float, float, float]:
    """Return (beta, x, eps) for persuasion, before beta is clipped below C / 4.

    ``"thesis"`` (rounding): beta = x = T^(-1/10), eps = T^(-1/5). ``"balanced"`` (ours): rounding
    uses the staircase count and beta = x = eps = T^(-1/8); the logit grid has beta = x = T^(-1/7)
    and eps = T^(-1/4).

    Examples
    --------
    >>> [round(x, 3) for x in persuasion_tuning(10_000, "logit")]
    [0.268, 0.268, 0.1]
    """
    T = check_positive_int(horizon, "horizon")
    check_choice(tuning, "tuning", TUNINGS)
    check_choice(discretization, "discretization", ("rounding", "logit"))
    if tuning == "thesis":
        return T**-0.1, T**-0.1, T**-0.2
    if discretization == "rounding":
        return T**-0.125, T**-0.125, T**-0.125
    return T ** (-1 / 7), T ** (-1 / 7), T**-0.25


@checked
def staircase_policies(n: int, parts: int, *, as_printed: bool = False) -> int:
    """Most rounded persuasion schemes that can ever be returned: (n - 1)(2 / delta + 1) (ours).

    ``n`` is the number of extreme points, ``parts`` is 1 / delta. As printed: n^2 / delta^2, with
    the number n of strategies.

    Examples
    --------
    >>> staircase_policies(2, 1600), staircase_policies(2, 1600, as_printed=True)
    (3201, 10240000)
    """
    number, whole = check_positive_int(n, "n"), check_positive_int(parts, "parts")
    return (number * whole) ** 2 if as_printed else (number - 1) * (2 * whole + 1)


@checked
def log_odds_policies(beta: float, C: float) -> int:
    """Schemes on the log-odds grid of spacing 4 beta, and the two without information (ours).

    The grid covers the priors from beta C to 1 - beta C, so there are about
    ``ln(1 / (beta C)) / (2 beta)``.

    Examples
    --------
    >>> log_odds_policies(0.02, 0.5)
    117
    """
    width = check_real(C, "C", low=0.0, high=1.0, open_low=True)
    spacing = 4 * check_real(beta, "beta", low=0.0, open_low=True)
    edge = beta * width
    if not 0 < edge <= 0.5:
        raise InvalidInputError(
            f"beta * C must be above 0 and at most 0.5, got {edge:g}: there is no such grid"
        )
    return 2 * round(math.log((1 - edge) / edge) / spacing) + 3


@checked
def stabilised_loss(beta: float, C: float) -> float:
    """Most value that persuasion loses when its posteriors stay beta off the edges: beta / C.

    ``C`` is the length of the shortest interval of beliefs with one best strategy. Proposition 7.C
    (ours); the print has 3 beta / C.

    Examples
    --------
    >>> round(stabilised_loss(0.02, 0.5), 3)
    0.04
    """
    width = check_real(C, "C", low=0.0, high=1.0, open_low=True)
    return check_real(beta, "beta", low=0.0) / width


@checked
def rounded_loss(beta: float, C: float, delta: float) -> float:
    """Most value that stabilised persuasion loses when rounded: beta / C + 2 sqrt(delta).

    ``delta`` is the step of the rounding, at most beta^2 / 16 (Theorem 7.4, repaired).

    Examples
    --------
    >>> round(rounded_loss(0.02, 0.5, 1 / 40_000), 3)
    0.05
    """
    step = check_real(delta, "delta", low=0.0, high=1.0)
    return stabilised_loss(beta, C) + 2 * math.sqrt(step)


@checked
def log_odds_loss(beta: float, C: float) -> float:
    """Most value that stabilised persuasion loses on the log-odds grid: 2 beta / C.

    Proposition 7.E (ours).

    Examples
    --------
    >>> round(log_odds_loss(0.02, 0.5), 3)
    0.08
    """
    return 2 * stabilised_loss(beta, C)


@checked
def optimistic_excess(eps: float, c1: float, C: float, *, as_printed: bool = False) -> float:
    """How much an eps-best response can raise the persuasion value above v*.

    ``eps / (c1 C)`` (ours); as printed (Lemma F.8) ``2 sqrt((1 + 1/C) eps / (c1 C))``.

    Examples
    --------
    >>> optimistic_excess(0.01, 2.0, 0.5)
    0.01
    >>> round(optimistic_excess(0.01, 2.0, 0.5, as_printed=True), 3)
    0.346
    """
    eps = check_real(eps, "eps", low=0.0)
    c1 = check_real(c1, "c1", low=0.0, open_low=True)
    C = check_real(C, "C", low=0.0, high=1.0, open_low=True)
    slope = c1 * C
    if slope == 0:
        raise InvalidInputError(f"c1 * C must be a number above 0, got {c1:g} * {C:g}")
    if as_printed:
        return 2 * math.sqrt((1 + 1 / C) * eps / slope)
    return eps / slope


@checked
def blum_mansour_bound(n_actions: int, rounds: int, width: float = 2.0) -> float:
    """Largest expected swap regret (a sum over rounds): ``width * sqrt(n T ln n)``, for every T.

    It bounds the regret of the mixed actions. The rows use the rate ``2 sqrt(n ln n / t) / width``,
    so the horizon need not be known.

    Examples
    --------
    >>> round(blum_mansour_bound(3, 10_000, width=1.0), 1)
    181.5
    """
    n = check_positive_int(n_actions, "n_actions")
    total = check_positive_int(rounds, "rounds")
    return check_real(width, "width", low=0.0) * math.sqrt(n * total * math.log(n))


@checked
def contextual_swap_regret(
    n_contexts: int, n_actions: int, rounds: int, *, drawn: bool = False
) -> float:
    """Swap regret per round of one Blum-Mansour copy per context: 2 sqrt(contexts n ln n / T).

    For mixed actions and gains in [-1, 1] (Proposition 7.I). Actions drawn from them stay below
    twice as much on average; that is measured, not proved.

    Examples
    --------
    >>> round(contextual_swap_regret(4, 3, 600), 3)
    0.296
    """
    copies = check_positive_int(n_contexts, "n_contexts")
    per_round = blum_mansour_bound(n_actions, copies * rounds) / rounds
    return 2 * per_round if drawn else per_round
