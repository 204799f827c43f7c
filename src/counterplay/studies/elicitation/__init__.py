"""Studies of preference elicitation: how many questions, how good, what goes wrong."""

from counterplay.studies.elicitation.adaptive import ADAPTIVE
from counterplay.studies.elicitation.bases import BASES
from counterplay.studies.elicitation.environments import ENVIRONMENTS
from counterplay.studies.elicitation.many_users import MANY_USERS
from counterplay.studies.elicitation.noise import NOISE
from counterplay.studies.elicitation.panels import PANELS
from counterplay.studies.elicitation.people import PEOPLE
from counterplay.studies.elicitation.precision import PRECISION
from counterplay.studies.elicitation.promises import PROMISES
from counterplay.studies.elicitation.times import TIMES
from counterplay.studies.elicitation.trajectories import TRAJECTORIES
from counterplay.studies.study import Area

AREA = Area(
    name="elicitation",
    title="What does this person want? Preferences from comparisons",
    story=(
        "A route, a laptop or a treatment plan has several objectives, and nobody can say how they "
        "weigh them. But everybody can say which of two options they like better, or that they "
        "cannot tell. The chapter's procedure finds a near-optimal option with O(k log(k/eps)) "
        "such questions; here its regret is linear in the person's precision and free of the "
        "exponential factor. For people there is a shorter way: keep every preference that "
        "explains the answers, ask what tells most, and stop with a certificate that bounds the "
        "regret over all of them, even if an answer was wrong. And any policy can be shown as at "
        "most k+1 real trajectories with exactly its value, rare accidents included."
    ),
    harm=(
        "Nobody can say how they weigh price against comfort, and people slip: a questionnaire "
        "that trusts every answer recommends the wrong item with full confidence."
    ),
    remedy=(
        "Ask comparisons and stop with a certificate that holds as long as at most a stated share "
        "of the answers is wrong: no other item can be much better for this person."
    ),
    start="counterplay elicit cars.csv --benefit comfort --cost price",
    picture="few-questions/questions",
    studies=(
        ADAPTIVE,
        PRECISION,
        BASES,
        TRAJECTORIES,
        TIMES,
        ENVIRONMENTS,
        NOISE,
        PEOPLE,
        PROMISES,
        PANELS,
        MANY_USERS,
    ),
)

__all__ = ["AREA"]
