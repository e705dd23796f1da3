"""``python -m kpacktools`` and the console script."""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its status."""
    # A scan makes hundreds of thousands of small tuples, none of them in a cycle: at the default thresholds the
    # collector walks all of them again and again, for a fifth of the time of a large merge.
    gc.set_threshold(200_000, 50, 50)
    from kpacktools.cli import run

    status = run(sys.argv[1:])
    # The interpreter's last collections would walk all that goes away with the process: a tenth of a short run.
    gc.freeze()
    sys.exit(status)


if __name__ == "__main__":
    main()
