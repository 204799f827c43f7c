"""``python -m counterplay``: the same as the ``counterplay`` command."""

from counterplay.cli import main

if __name__ == "__main__":
    main()
