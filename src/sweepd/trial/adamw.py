"""AdamW as torch has it (Loshchilov & Hutter 2019), without torch's compiler."""

from __future__ import annotations

from inspect import unwrap

import torch

_AdamW = torch.optim.AdamW


class AdamW(_AdamW):
    """Torch's AdamW, with the same numbers. Torch wraps these methods to keep its compiler out of
    them, and loads the compiler to do so. That takes 1.4 seconds of processor time in every worker,
    and a trial may take no longer."""

    add_param_group = unwrap(_AdamW.add_param_group)
    zero_grad = unwrap(_AdamW.zero_grad)
    state_dict = unwrap(_AdamW.state_dict)
    load_state_dict = unwrap(_AdamW.load_state_dict)
    step = torch.no_grad()(unwrap(_AdamW.step))
