"""Studies of data sharing: prices of stability and fairness, odd geometry, and real defectors."""

from counterplay.studies.contribution.consortium import STUDY as CONSORTIUM
from counterplay.studies.contribution.defection_digits import EIGHT
from counterplay.studies.contribution.defection_digits import STUDY as DEFECTION
from counterplay.studies.contribution.emnist import emnist_figures, emnist_verdicts
from counterplay.studies.contribution.geometry import STUDY as GEOMETRY
from counterplay.studies.contribution.parity import STUDY as PARITY
from counterplay.studies.contribution.prices import STUDY as PRICES
from counterplay.studies.contribution.search import STUDY as SEARCH
from counterplay.studies.contribution.trajectories import STUDY as TRAJECTORIES
from counterplay.studies.contribution.weights import STUDY as WEIGHTS
from counterplay.studies.study import Area

__all__ = ["AREA", "emnist_figures", "emnist_verdicts"]

AREA = Area(
    name="contribution",
    title="How much data each party brings",
    story=(
        "Hospitals pool data for a shared model; each wants to reach its own accuracy and to bring "
        "little. The cheapest joint plan can rest on one party that would be better off stopping. "
        "A stable plan gives nobody a reason to hold back, an envy-free plan gives nobody a reason "
        "to swap; both can cost about sqrt(k)/2 times more, and in whole numbers a stable plan may "
        "not exist at all. In training, federated averaging lets a lone defector get away with "
        "a few per cent of its data; MW-FED, which asks satisfied parties for less, does not."
    ),
    harm=(
        "The cheapest plan for pooling data may ask one party for nearly everything, and that "
        "party does better by holding back."
    ),
    remedy=(
        "Measure what the parties' rows are worth to each other. You get the plan that keeps every "
        "promise, who would hold back, and what a stable or an envy-free plan costs."
    ),
    start="counterplay consortium north.csv south.csv east.csv --label y",
    picture="prices/prices",
    studies=(CONSORTIUM, PRICES, GEOMETRY, TRAJECTORIES, PARITY, WEIGHTS, DEFECTION, EIGHT, SEARCH),
)
