"""Studies of joint labelling campaigns: who gains, what greed costs, what strictness costs."""

from __future__ import annotations

from counterplay.studies.labeling import (
    audits,
    campaign,
    course,
    gains,
    greed,
    guarded,
    hospitals,
    rarity,
    strictness,
    trees,
)
from counterplay.studies.study import Area

AREA = Area(
    name="labeling",
    title="Share the label queries so that everyone gains",
    story=(
        "Several parties own pools of unlabeled data that one unknown rule labels. Together they "
        "need far fewer labels than alone. But the standard greedy protocol looks only at the "
        "total: it may ask one party again and again, who then does better by leaving. The library "
        "computes the exact expected work of every party, wraps any protocol so that nobody loses "
        "and the total does not grow, and can make everybody gain strictly."
    ),
    harm=(
        "Teams that label one pool together with the usual tools can end up with more work than "
        "each had alone, and nobody can say how many of the labels a model filled in are wrong."
    ),
    remedy=(
        "Run a `Campaign`: no party answers more questions than it would alone, and the labels "
        "come with a certificate from an audit of random items."
    ),
    start="counterplay campaign init scans.csv --owner clinic --classes yes,no -o camp.jsonl",
    picture="cost-of-greed/cost-of-greed",
    studies=(
        trees.STUDY,
        greed.STUDY,
        gains.STUDY,
        strictness.STUDY,
        hospitals.STUDY,
        rarity.STUDY,
        guarded.STUDY,
        audits.STUDY,
        course.STUDY,
        campaign.STUDY,
    ),
)
