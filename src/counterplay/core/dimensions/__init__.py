"""Combinatorial dimensions of finite classes, each with a certificate that can be checked.

Every function returns an object with ``value`` (the number), the set or tree behind it, and
``verify(cls)``, which re-checks the certificate against the class in a few lines of code.
"""

from counterplay.core.dimensions.vc import Shattering, vc_dimension

__all__ = ["Shattering", "vc_dimension"]
