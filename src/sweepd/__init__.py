"""sweepd: distributed sweeps over architectures, tasks and sizes."""

__version__ = "0.1.0"
