"""Hostile input from everywhere: campaigns that try to get an undocumented answer.

A campaign is a function of :class:`~fuzz.campaign.Options` that returns the results of its calls.
A new campaign is added to ``CAMPAIGNS``; ``python -m tests.fuzz`` runs them and prints one table.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # threads do not survive a fork
os.environ.setdefault("MPLBACKEND", "Agg")

CAMPAIGNS = {
    "inputs": "inputs:run",
    "states": "outside:states",
    "flips": "outside:flips",
    "stores": "outside:stores",
    "replies": "outside:replies",
    "kills": "outside:kills",
}
"""Name on the command line -> module in this folder and function."""

CLEAN_AREAS = (
    "core", "strategic", "contribution", "defection", "labeling", "principal", "elicitation",
    "tradeoff", "poisoning", "invariance", "auditing", "federated", "tables",
)  # fmt: skip
"""Areas in which the slice of the test suite finds nothing; add one when it is mended."""
