"""Studies of the strategic area: what you see decides what you pay."""

from counterplay.studies.strategic.finite import FINITE
from counterplay.studies.strategic.graphs import STUDIES as GRAPHS
from counterplay.studies.study import Area

AREA = Area(
    name="strategic",
    title="Pick a rule while applicants adapt",
    story=(
        "You publish a yes/no rule; every applicant may move, within an ability you do not know, "
        "to get a yes. A rule that is perfect on past data can be useless once people know it. "
        "Among a catalogue of candidate rules one is right about everybody after they have moved; "
        "finding it by deploying rules costs log n mistakes if you see applicants first, about "
        "sqrt(T log n) if you see them afterwards, and n if you see nothing. The library gives the "
        "learner for each situation, the adversary that shows it cannot be done better, and a "
        "report for the model you already have."
    ),
    studies=FINITE + GRAPHS,
)
