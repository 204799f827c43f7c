"""Who leaves the federation, what it does to the model, and which server rule keeps everyone in.

Several parties train one model over many rounds. Each wants a small loss on its own data, pays for
every round, and leaves for good once the broadcast model is good enough for it. Its data is then
gone and the others pull the model away. Equal weights (:class:`FedAvg`) cannot avoid this; a server
that predicts who is about to leave (:class:`ADAGD`, :class:`SafeStep`) can.

:class:`DefectionSimulator` compares rules on your own tables, :class:`FederatedClassifier` trains
with one. On losses with gradients the server plays a game::

    run = play(Server(SafeStep(0.05), w0, step_size=1 / problem.H), FederationGame(problem, eps))
    print(run.summary()); run.to_frame(); run.plot(delta=0.05)
    model = land(problem, run.w, eps)  # one last step into everybody's target

``counterplay.defection.flower`` makes Flower clients leave; the strategy that keeps them is in
``counterplay.federated.flower``. ``instances`` holds the examples of the theory, ``bounds`` its
numbers, ``lab`` the rest.
"""

from typing import TYPE_CHECKING, Any

from counterplay.core.play import play
from counterplay.defection import bounds, instances, lab
from counterplay.defection.agents import RationalAgent
from counterplay.defection.assumptions import check_assumptions, estimate_smoothness
from counterplay.defection.classify import classify_defections
from counterplay.defection.federation_game import FederationGame, Server
from counterplay.defection.heterogeneity import minimal_heterogeneity_linear
from counterplay.defection.landing import land
from counterplay.defection.linear_models import LinearModelProblem
from counterplay.defection.problem import FunctionProblem
from counterplay.defection.simulator import DefectionSimulator
from counterplay.defection.split import heterogeneous_split
from counterplay.federated.history import HealthGauge
from counterplay.federated.rules import ADAGD, FedAvg, MWFed, SafeStep
from counterplay.federated.work import LocalWork

if TYPE_CHECKING:
    from counterplay.defection.federated_classifier import FederatedClassifier

__all__ = [
    "ADAGD",
    "DefectionSimulator",
    "FedAvg",
    "FederatedClassifier",
    "FederationGame",
    "FunctionProblem",
    "HealthGauge",
    "LinearModelProblem",
    "LocalWork",
    "MWFed",
    "RationalAgent",
    "SafeStep",
    "Server",
    "bounds",
    "check_assumptions",
    "classify_defections",
    "estimate_smoothness",
    "heterogeneous_split",
    "instances",
    "lab",
    "land",
    "minimal_heterogeneity_linear",
    "play",
]


def __getattr__(name: str) -> Any:
    """Import scikit-learn only for its estimator: a Flower party starts a process per message."""
    if name == "FederatedClassifier":
        from counterplay.defection.federated_classifier import FederatedClassifier

        return FederatedClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
