"""Bounds as they are printed: rounded to the safe side."""

from __future__ import annotations

import numpy as np

from counterplay.core.report import at_least, at_most
from counterplay.labeling.certificate import LabelCertificate


def test_printed_bounds_hold() -> None:
    rng = np.random.default_rng(0)
    shares = np.concatenate([rng.random(500), 10.0 ** rng.uniform(-11, 0, 500), [1.0, 0.05, 0.07]])
    for share in shares.tolist():
        up, down = (float(told(share).split()[0]) / 100 for told in (at_most, at_least))
        assert down * (1 - 1e-9) <= share <= up * (1 + 1e-9) + 1e-12
        assert up <= share * 1.01 + 1e-12
    assert (at_most(0.05), at_least(0.95)) == ("5 %", "95 %")
    assert at_least(0.999999) == "99.99 %"  # never 100 %
    assert at_most(1e-17) == "0 %"  # what rounding left is no regret
    told = str(LabelCertificate(True, 28 / 569, 0.05, 0.99999, 63, 0, "all"))
    assert told.startswith("all: at most 4.93 % wrong labels with 99.99 % confidence")
