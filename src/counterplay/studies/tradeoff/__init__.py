"""Studies of the tradeoff area: what is impossible, what laziness buys, what the watchdog saves."""

from counterplay.studies.study import Area
from counterplay.studies.tradeoff.epoch_dial import EPOCH_DIAL
from counterplay.studies.tradeoff.frontier import FRONTIER
from counterplay.studies.tradeoff.guard_bounds import GUARD_BOUNDS
from counterplay.studies.tradeoff.live import LIVE
from counterplay.studies.tradeoff.real_stream import REAL_STREAM
from counterplay.studies.tradeoff.switch_tax import SWITCH_TAX
from counterplay.studies.tradeoff.watchdog_off import WATCHDOG_OFF
from counterplay.studies.tradeoff.watchdog_on import WATCHDOG_ON

AREA = Area(
    name="tradeoff",
    title="One metric to win, one harm budget to keep",
    story=(
        "You run one of several models; each round both its error and the harm it does to the "
        "people affected are revealed for all of them. You want to be almost as good as the best "
        "model while the harm stays within a rate. Nobody can promise both in general. It becomes "
        "possible when no model exceeds the rate by more than a burst budget on any interval and "
        "you switch rarely; a watchdog that takes models down and lets them come back covers the "
        "rest."
    ),
    harm=(
        "The challenger with fewer errors harms somebody more often, and by the time the average "
        "shows it the harm is done."
    ),
    remedy=(
        "Put the models behind a guard with a harm budget: it keeps the best one live, takes down "
        "what exceeds the budget, and says how much of it was used."
    ),
    start="ChampionChallenger(models, HarmBudget(rate=0.08, burst=5), horizon=10_000)",
    picture="watchdog-on/timeline",
    studies=(
        FRONTIER,
        SWITCH_TAX,
        WATCHDOG_OFF,
        WATCHDOG_ON,
        EPOCH_DIAL,
        REAL_STREAM,
        LIVE,
        GUARD_BOUNDS,
    ),
)
