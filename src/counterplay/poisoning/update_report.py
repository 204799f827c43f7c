"""What an update of a partition did: blocks fitted again, rows added, removed and left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterplay.core.arguments import checked
from counterplay.core.report import Report

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class UpdateReport(Report):
    """What :meth:`counterplay.poisoning.PartitionClassifier.update` did.

    Parameters
    ----------
    blocks_refitted
        Blocks whose rows changed.
    n_blocks
        Blocks there are.
    rows_added
        New rows.
    rows_removed
        Rows that were removed.
    rows_rejected
        New rows that did not fit the schema or the classes.
    seconds
        Time it took.

    Examples
    --------
    >>> UpdateReport(1, 41, 0, 4, 0, 0.02).summary()
    '1 of 41 blocks fitted again; 0 rows added, 4 removed, 0 left out; 0.02 s'
    """

    blocks_refitted: int
    n_blocks: int
    rows_added: int
    rows_removed: int
    rows_rejected: int
    seconds: float

    def summary(self) -> str:
        """One sentence."""
        return (
            f"{self.blocks_refitted} of {self.n_blocks} blocks fitted again; {self.rows_added} "
            f"rows added, {self.rows_removed} removed, {self.rows_rejected} left out; "
            f"{self.seconds:.2f} s"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row with the numbers."""
        import pandas as pd

        return pd.DataFrame(
            {
                "blocks_refitted": [self.blocks_refitted],
                "rows_added": [self.rows_added],
                "rows_removed": [self.rows_removed],
                "rows_rejected": [self.rows_rejected],
                "seconds": [self.seconds],
            }
        )
