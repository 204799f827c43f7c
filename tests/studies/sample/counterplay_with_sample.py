"""The command line with the sample area added: what the tests start as a process of its own."""

import sys

from counterplay import cli
from counterplay.studies import registry

registry.MODULES["sample"] = "sample_area"

if __name__ == "__main__":
    sys.exit(cli.run(sys.argv[1:]))
