"""Studies of the invariance area: where augmentation helps, is not enough, or hurts.

Source: docs/theory/11-invariance.md, and real images and tables.
"""

from counterplay.studies.invariance.constructions import HELPS, HURTS, NOT_OPTIMAL
from counterplay.studies.invariance.dimensions import DIMENSIONS
from counterplay.studies.invariance.real_data import BOARDS, COLOURS, TABLE
from counterplay.studies.invariance.rotated import ROTATED
from counterplay.studies.invariance.settings import ADAPTIVE, AGNOSTIC, BENIGN
from counterplay.studies.invariance.symmetry_advice import ADVICE
from counterplay.studies.invariance.symmetry_future import FUTURE
from counterplay.studies.invariance.symmetry_labels import LABELS
from counterplay.studies.invariance.symmetry_level import LEVELS
from counterplay.studies.invariance.symmetry_race import RACE
from counterplay.studies.invariance.symmetry_size import POWER, SIZE
from counterplay.studies.study import Area

AREA = Area(
    name="invariance",
    title="Augment, average, or neither",
    story=(
        "Labels often do not change when an image is rotated or a board is mirrored. Everyone "
        "trains on transformed copies.\n\n"
        "That helps when some hypothesis fits the copies, it is not the best one can do, and it "
        "hurts when none fits. The look-up of known orbits never hurts, one-inclusion learners "
        "are optimal in the worst case, and the advisor measures on your data which case it is."
    ),
    harm=(
        "Training on flipped, turned or shuffled copies is a habit, but sometimes the labels do "
        "not survive it: shifting the word columns raises the error of a spam filter from 7 to "
        "11 %, and nothing warns you."
    ),
    remedy=(
        "Test on your labels whether the symmetry holds, let the advisor compare the ways to use "
        "it, and take the model it recommends."
    ),
    start="check_symmetry(X, y, groups.image_flips((8, 8)))",
    picture="hurts/hurts",
    studies=(
        NOT_OPTIMAL, BENIGN, HELPS, HURTS, COLOURS, ADAPTIVE, BOARDS, TABLE, ROTATED, AGNOSTIC,
        DIMENSIONS, LABELS, LEVELS, SIZE, POWER, ADVICE, RACE, FUTURE,
    ),
)  # fmt: skip

__all__ = ["AREA"]
