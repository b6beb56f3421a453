"""sweepd: distributed sweeps over architectures, tasks and sizes."""

__version__ = "0.2.0.dev0"
