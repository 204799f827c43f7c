"""How options are shown: value vectors, policies or trajectory sets, with words for people.

The showroom turns an item of an oracle, possibly diluted with "nothing", into an
:class:`~counterplay.elicitation.comparisons.Option`. Trajectory sets are computed once per policy.
Source: docs/theory/08-elicitation.md, "Representations".
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from counterplay.core.validation import FloatArray, check_choice
from counterplay.elicitation.comparisons import Option
from counterplay.elicitation.expand_and_compress import expand_and_compress
from counterplay.elicitation.oracles import LinearOracle, MDPOracle
from counterplay.elicitation.policies import PolicyMixture, do_nothing_policy, policy_value
from counterplay.elicitation.trajectories import WeightedTrajectorySet
from counterplay.errors import InvalidInputError

Representation: TypeAlias = Literal["values", "policy", "trajectories"]


class Showroom:
    """Builds the options of the questions for one oracle."""

    def __init__(self, oracle: LinearOracle, representation: Representation = "values") -> None:
        check_choice(representation, "representation", ("values", "policy", "trajectories"))
        self.oracle = oracle
        self.mdp = oracle.mdp if isinstance(oracle, MDPOracle) else None
        if representation != "values" and self.mdp is None:
            raise InvalidInputError(
                f"representation={representation!r} needs a decision process; "
                "use representation='values' for catalogues and other sets"
            )
        self.representation = representation
        self._sets: dict[bytes, WeightedTrajectorySet] = {}

    @property
    def k(self) -> int:
        """Number of objectives."""
        return self.oracle.k

    def objective_name(self, j: int) -> str:
        """Return the name of objective ``j``."""
        names = getattr(self.mdp or self.oracle, "objective_names", None)
        return str(names[j]) if names else f"objective {j}"

    def option(self, item: Any, value: FloatArray, chance: float = 1.0) -> Option:
        """Return the option "with probability ``chance`` the item, otherwise nothing"."""
        label = self.label(item, value)
        if self.mdp is None:
            return Option(chance * value, item, chance, label)
        shown = item
        if chance < 1.0:
            shown = PolicyMixture([chance, 1.0 - chance], [item, do_nothing_policy(self.mdp)])
        if self.representation == "policy":
            return Option(policy_value(self.mdp, shown), shown, chance, label)
        if self.representation == "trajectories":
            trajectories = self.trajectories(item).diluted(chance)
            exact = trajectories.weights @ trajectories.returns
            return Option(exact, shown, chance, label, trajectories)
        return Option(chance * value, shown, chance, label)

    def trajectories(self, policy: Any) -> WeightedTrajectorySet:
        """Return the trajectory set of a policy, computed once."""
        if self.mdp is None:
            raise InvalidInputError("only policies of a decision process have trajectories")
        key = np.ascontiguousarray(policy).tobytes()
        if key not in self._sets:
            self._sets[key] = expand_and_compress(self.mdp, policy)
        return self._sets[key]

    def row(self, item: Any) -> Any:
        """Return the row of the user's table that an item is; None where there is no table."""
        index = getattr(self.oracle, "index", None)
        if index is None or not isinstance(item, int | np.integer) or item < 0:
            return None
        return index[int(item)]

    def label(self, item: Any, value: FloatArray) -> str:
        """Return a short description of an item."""
        describe = getattr(self.oracle, "describe", None)
        if describe is not None:
            return str(describe(item))
        names = getattr(self.oracle, "names", None)
        if names is not None and isinstance(item, int) and item >= 0:
            return str(names[item])
        if self.mdp is not None:
            original = self.mdp.original_value(value)
            parts = [f"{n} {v:.4g}" for n, v in zip(self.mdp.objective_names, original)]
            return "a policy with " + ", ".join(parts)
        parts = [f"{self.objective_name(j)} {v:.4g}" for j, v in enumerate(value)]
        return "an option with " + ", ".join(parts)
