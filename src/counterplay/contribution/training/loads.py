"""How MW-FED splits the work of a round; lives on the shared floor."""

from counterplay.federated.loads import (
    ROUNDINGS,
    Floats,
    Ints,
    Rounding,
    ideal_loads,
    rounded_loads,
)

__all__ = ["ROUNDINGS", "Floats", "Ints", "Rounding", "ideal_loads", "rounded_loads"]
