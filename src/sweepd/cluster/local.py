"""This machine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class PerTrial(BaseModel):
    """What one trial occupies where the grid says `resources: auto`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: Annotated[float, Field(gt=0)] = 1.0
    gpus: Annotated[float, Field(ge=0)] = 0.0


class Local(BaseModel):
    """A private Ray on this machine, for as long as the launch runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["local"]
    results: str | None = None
    """results folder where `--results` is not given"""
    per_trial: PerTrial = PerTrial()
