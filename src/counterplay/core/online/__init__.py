"""Standard online learners over finite classes."""

from counterplay.core.online.halving import Halving
from counterplay.core.online.soa import SOA

__all__ = ["SOA", "Halving"]
