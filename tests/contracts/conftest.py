"""Makes the contract modules importable; they are helpers and hold no tests or doctests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
collect_ignore_glob = ["contract_*.py", "cases_*.py"]
