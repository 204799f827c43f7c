"""The studies for finite catalogues, in the order of the report."""

from counterplay.studies.strategic.constants import CONSTANTS
from counterplay.studies.strategic.gaming import GAMING
from counterplay.studies.strategic.mistakes_over_time import MISTAKES_OVER_TIME
from counterplay.studies.strategic.proper_improper import PROPER_IMPROPER
from counterplay.studies.strategic.sample_complexity import SAMPLE_COMPLEXITY
from counterplay.studies.strategic.scorecards import SCORECARDS
from counterplay.studies.strategic.what_you_see import WHAT_YOU_SEE

FINITE = (
    WHAT_YOU_SEE,
    MISTAKES_OVER_TIME,
    PROPER_IMPROPER,
    SAMPLE_COMPLEXITY,
    CONSTANTS,
    SCORECARDS,
    GAMING,
)
