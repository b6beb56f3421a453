"""Seeds the generators of a program before its own code runs (`seeds: {patch: true}`).

Python's generator is seeded at once, NumPy's and torch's as soon as the program has imported them.
The program may seed them again. A `sitecustomize` of the program's own environment runs as well.
"""

import importlib.util
import os
import random
import runpy
import sys
from pathlib import Path

SEED = int(os.environ["SWEEPD_SEED"])
SEEDED = {
    "numpy": lambda numpy: numpy.random.seed(SEED % 2**32),
    "torch": lambda torch: torch.manual_seed(SEED),
}


class Seeding:
    """Finds NumPy and torch as Python does, and seeds them once they are imported."""

    def find_spec(self, name, path=None, target=None):
        if name not in SEEDED:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        seed, execute = SEEDED.pop(name), spec.loader.exec_module

        def exec_module(module):
            execute(module)
            seed(module)

        spec.loader.exec_module = exec_module
        return spec


random.seed(SEED)
sys.meta_path.insert(0, Seeding())

# The environment's own `sitecustomize`, which this one hides.
HERE = Path(__file__).resolve().parent
for folder in map(Path, sys.path):
    other = folder / "sitecustomize.py"
    if folder.resolve() != HERE and other.is_file():
        runpy.run_path(str(other))
        break
