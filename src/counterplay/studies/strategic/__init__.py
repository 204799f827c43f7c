"""Studies of the strategic area: what you see decides what you pay."""

from counterplay.studies.strategic.constants import CONSTANTS
from counterplay.studies.strategic.gaming import GAMING
from counterplay.studies.strategic.graphs import STUDIES as GRAPHS
from counterplay.studies.strategic.mistakes_over_time import MISTAKES_OVER_TIME
from counterplay.studies.strategic.moves_ability import MOVES_ABILITY
from counterplay.studies.strategic.moves_cuts import MOVES_CUTS
from counterplay.studies.strategic.moves_enumeration import MOVES_ENUMERATION
from counterplay.studies.strategic.moves_programs import MOVES_PROGRAMS
from counterplay.studies.strategic.moves_search import MOVES_SEARCH
from counterplay.studies.strategic.proper_improper import PROPER_IMPROPER
from counterplay.studies.strategic.sample_complexity import SAMPLE_COMPLEXITY
from counterplay.studies.strategic.scorecards import SCORECARDS
from counterplay.studies.strategic.what_you_see import WHAT_YOU_SEE
from counterplay.studies.study import Area

FINITE = (
    WHAT_YOU_SEE,
    MISTAKES_OVER_TIME,
    PROPER_IMPROPER,
    SAMPLE_COMPLEXITY,
    CONSTANTS,
    SCORECARDS,
    GAMING,
    MOVES_SEARCH,
    MOVES_CUTS,
    MOVES_ABILITY,
    MOVES_ENUMERATION,
    MOVES_PROGRAMS,
)

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
    harm=(
        "Applicants learn what counts and change that. On census data a model classifies 82 % of "
        "people correctly, but only about half once everybody spends a little effort on the "
        "cheapest move."
    ),
    remedy=(
        "Say what people can change and what it costs them. The report counts who moves and who "
        "pays; `rethreshold` finds the cut with the smallest worst regret over all they may spend."
    ),
    start="gaming_report(model, table, outcome, moves=moves)",
    picture="gaming/accuracy",
    studies=FINITE + GRAPHS,
)
