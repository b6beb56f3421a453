"""Ray Tune, as drivers and workers import it, without what only its own tables need."""

from __future__ import annotations

from sweepd import ray_private

ray_private.import_tune()

from ray import tune as tune  # noqa: E402 (imported just above)
