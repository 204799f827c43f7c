"""Token buckets: how often one link, one address or one login may come.

A bucket holds ``burst`` tokens and gains ``per_minute`` of them; a request takes one. The oldest
buckets are forgotten when there are too many of them: they are full again by then.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from counterplay.studio.web.security import TooMany


class Buckets:
    """One bucket per name.

    Examples
    --------
    >>> clock = iter([0.0, 0.0, 0.0, 60.0])
    >>> buckets = Buckets(per_minute=1, burst=2, clock=lambda: next(clock))
    >>> [round(buckets.wait("a")) for _ in range(4)]
    [0, 0, 60, 0]
    """

    def __init__(
        self,
        per_minute: float,
        burst: float,
        *,
        most: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rate, self.burst, self.most, self.clock = per_minute / 60.0, burst, most, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, name: str, cost: float = 1.0) -> float:
        """Take a token; return 0, or how many seconds to wait for one (then none is taken)."""
        now = self.clock()
        tokens, since = self._buckets.get(name, (self.burst, now))
        tokens = min(self.burst, tokens + (now - since) * self.rate)
        missing = cost - tokens
        if missing <= 1e-9:
            tokens -= cost
        self._buckets[name] = (tokens, now)
        self._buckets.move_to_end(name)
        if len(self._buckets) > self.most:
            self._buckets.popitem(last=False)
        return max(0.0, missing / self.rate) if missing > 1e-9 else 0.0

    def give(self, name: str) -> None:
        """Put a token back."""
        tokens, since = self._buckets.get(name, (self.burst, self.clock()))
        self._buckets[name] = (min(self.burst, tokens + 1.0), since)

    def take(self, name: str, cost: float = 1.0) -> None:
        """Take a token or refuse."""
        if wait := self.wait(name, cost):
            raise TooMany(wait)


def address(client: tuple[str, int] | None, forwarded: str | None, trusted: int) -> str:
    """Return who is asking; X-Forwarded-For counts only behind that many trusted proxies.

    Examples
    --------
    >>> address(("10.0.0.1", 1), "6.6.6.6, 203.0.113.9", 0)
    '10.0.0.1'
    >>> address(("10.0.0.1", 1), "6.6.6.6, 203.0.113.9", 1)
    '203.0.113.9'
    """
    direct = client[0] if client else "unknown"
    if trusted < 1 or not forwarded:
        return direct
    hops = [hop.strip() for hop in forwarded.split(",") if hop.strip()]
    return hops[-trusted][:60] if len(hops) >= trusted else direct
