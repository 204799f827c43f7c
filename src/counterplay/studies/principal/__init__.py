"""Studies of contracts and persuasion against a learning Agent."""

from counterplay.studies.principal.calibration import CALIBRATION
from counterplay.studies.principal.offers import OFFERS
from counterplay.studies.principal.offers_real import OFFERS_REAL
from counterplay.studies.principal.oracle_repair import ORACLE_REPAIR
from counterplay.studies.principal.real_stream import REAL_STREAM
from counterplay.studies.principal.regret import REGRET
from counterplay.studies.principal.safety_net import SAFETY_NET
from counterplay.studies.principal.secret_information import SECRET_INFORMATION
from counterplay.studies.principal.stability import STABILITY
from counterplay.studies.study import Area

AREA = Area(
    name="principal",
    title="Contracts and persuasion against an agent who learns",
    story=(
        "Every round a Principal commits to a policy: a commission, or what she will disclose. An "
        "Agent who learns answers it, and then the state of the world is revealed. Nobody knows "
        "its distribution. Policies that look optimal sit on a near-tie of the Agent, and whoever "
        "trusts him to break it kindly loses most of her utility. The library forecasts the state "
        "so that forecasts are unbiased exactly where decisions change, which is exponentially "
        "cheaper than calibration, and offers stable policies that leave no near-tie. The regret "
        "against every fixed policy, counting the Agent's reaction to it, then vanishes; unless he "
        "has secret information, which no mechanism survives but a test detects."
    ),
    harm=(
        "The winner of an A/B test of offers is often just the noisiest one: with five shares and "
        "twenty rows each it lost 15 % of the best value. And with the offer that is best on paper "
        "the other side is nearly indifferent, and need not decide in your favour."
    ),
    remedy=(
        "Bring the log of offers and outcomes. You get limits for every offer, even for those "
        "never made, the next offer with what it promises, and what the log cannot tell."
    ),
    start="counterplay offer log.csv --offer commission --outcome revenue",
    picture="regret/near_tie",
    studies=(
        OFFERS,
        OFFERS_REAL,
        SAFETY_NET,
        REGRET,
        ORACLE_REPAIR,
        CALIBRATION,
        SECRET_INFORMATION,
        STABILITY,
        REAL_STREAM,
    ),
)
