"""`python -m tests.simulation SEED`: repeat one walk, saying every step."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.simulation.walk import STEPS, Deviation, walk


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Repeat a walk, saying every step.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omnigraph-walk-") as directory:
        try:
            walk(Path(directory) / "g", options.seed, options.steps, print)
        except Deviation as deviation:
            print(f"seed {options.seed}: {deviation}")
            return 1
    print(f"seed {options.seed}: the graph and the model agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
