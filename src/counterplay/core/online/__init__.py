"""Standard online learners that several areas share."""

from counterplay.core.online.blum_mansour import BlumMansour, blum_mansour_bound

__all__ = ["BlumMansour", "blum_mansour_bound"]
