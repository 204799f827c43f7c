"""Guarantees of the live guard, which sees only the model that decides.

Source: docs/theory/26-people.md, Theorems 26.4 to 26.7.
"""

from __future__ import annotations

import math

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_fraction,
    check_int,
    check_positive_int,
    check_real,
)


@checked
def live_regret(rounds: int, K: int, B: int, delay: int = 0) -> float:
    """Expected regret of the live guard with a fixed learning rate: 2 sqrt(m T B (K-1) ln K).

    With delayed outcomes m = ceil(delay / B) + 1 learners take turns (``copies="guaranteed"``).

    Examples
    --------
    >>> round(live_regret(4000, 3, 16)), round(live_regret(4000, 3, 16, delay=20))
    (750, 1299)
    """
    T, n, b = (check_positive_int(v, name) for v, name in ((rounds, "rounds"), (K, "K"), (B, "B")))
    m = -(-check_int(delay, "delay", low=0) // b) + 1
    return 2 * math.sqrt(m * T * b * (n - 1) * math.log(n))


@checked
def selective_regret(rounds: int, K: int, acceptance: float, B: int = 1) -> float:
    """Expected regret when everybody is judged in accepted rounds only: sqrt(2 T B ln K / rho).

    Examples
    --------
    >>> round(selective_regret(4000, 3, 0.5))
    133
    """
    T, n, b = (check_positive_int(v, name) for v, name in ((rounds, "rounds"), (K, "K"), (B, "B")))
    rho = check_real(acceptance, "acceptance", low=0.0, high=1.0, open_low=True)
    return math.sqrt(2 * T * b * math.log(n) / rho)


@checked
def live_harm(K: int, returns: int, burst: float, rate: float, delay: int) -> float:
    """Harm above the rate of the live guard on every path, while only allowed models are live.

    Examples
    --------
    >>> live_harm(2, 0, 5.0, 0.1, 0)
    11.8
    """
    n, back = check_positive_int(K, "K"), check_int(returns, "returns", low=0)
    late = check_int(delay, "delay", low=0)
    c = check_fraction(rate, "rate")
    return (n + back) * (check_real(burst, "burst", low=0.0) + (1 - c) * (1 + late))


@checked
def purse_harm(
    purse: float, rate: float, delay: int, safe_burst: float = 0.0, seen: int = 0
) -> float:
    """Harm above the rate with a purse, if the safe model exceeds it by at most ``safe_burst``.

    ``delay`` is the delay that was stated in advance, ``seen`` the largest one that occurred.

    Examples
    --------
    >>> purse_harm(10.0, 0.1, 0)
    10.9
    >>> round(purse_harm(10.0, 0.1, 0, seen=20), 9)
    28.9
    """
    c, stated = check_fraction(rate, "rate"), check_int(delay, "delay", low=0)
    own = check_real(safe_burst, "safe_burst", low=0.0)
    # where the safe model takes over, as long as no outcome is later than was stated
    threshold = max(0.0, check_real(purse, "purse", low=0.0) - (1 - c) * stated)
    return threshold + (1 - c) * (1 + max(stated, check_int(seen, "seen", low=0))) + own
