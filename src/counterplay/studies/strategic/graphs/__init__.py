"""What manipulation graphs cost: samples, feedback, unknown graphs, noise, real people.

Source: "Measured", see docs/theory/03-strategic-infinite.md.
"""

from counterplay.studies.strategic.graphs.clicks import CLICKS
from counterplay.studies.strategic.graphs.feedback import FEEDBACK
from counterplay.studies.strategic.graphs.lender import LENDER
from counterplay.studies.strategic.graphs.noise import NOISE
from counterplay.studies.strategic.graphs.rates import RATES
from counterplay.studies.strategic.graphs.samples import SAMPLES
from counterplay.studies.strategic.graphs.unknown import UNKNOWN
from counterplay.studies.strategic.graphs.unknown_online import UNKNOWN_ONLINE

STUDIES = (SAMPLES, FEEDBACK, UNKNOWN, UNKNOWN_ONLINE, NOISE, RATES, LENDER, CLICKS)
