"""Studies of the defection area: who leaves, what protection costs, what lies buy."""

from counterplay.studies.defection.grids import FINE_TUNE, Q_BY_K
from counterplay.studies.defection.misreport import MISREPORT
from counterplay.studies.defection.plates import PLATES
from counterplay.studies.defection.round_bounds import ROUND_BOUNDS
from counterplay.studies.defection.sampling import SAMPLING
from counterplay.studies.defection.sandwich import SANDWICH
from counterplay.studies.defection.step_sizes import STEP_SIZES
from counterplay.studies.defection.timeline import DEVICE_ACCURACY, TIMELINE
from counterplay.studies.study import Area

__all__ = ["AREA"]

AREA = Area(
    name="defection",
    title="Parties that leave federated training once they are satisfied",
    story=(
        "Several parties train one model over many rounds. Each leaves for good as soon as the "
        "model is good enough for itself, and takes its data along; the others then pull the model "
        "away. Averaging with equal weights cannot avoid this, whatever the step sizes. A server "
        "that predicts who is about to leave and bends its step around them keeps everybody, and "
        "can hand all of them a model within their targets in one last step."
    ),
    harm=(
        "A party leaves federated training as soon as the model is good enough for it. Its data "
        "are gone, and the model gets worse for everybody, even for those who left. Averaging "
        "with equal weights cannot avoid this."
    ),
    remedy=(
        "Replace one line of a Flower server: `SafeStep` bends each step around those who are "
        "about to leave, and the report says how far each party is from its target."
    ),
    start="strategy = RuleStrategy(SafeStep(delta=0.02), step_size=0.5, threshold=0.2)",
    picture="timeline/timeline",
    studies=(
        PLATES,
        SANDWICH,
        ROUND_BOUNDS,
        STEP_SIZES,
        MISREPORT,
        SAMPLING,
        TIMELINE,
        DEVICE_ACCURACY,
        Q_BY_K,
        FINE_TUNE,
    ),
)
