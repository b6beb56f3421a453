"""lin-RPE: the weights decay exponentially where queries and keys say nothing. It costs what
standard attention costs."""

import torch

from sweepd.models._relative import RelativeAttention
from sweepd.models.lin_rpe import LinRpe
from sweepd.models.standard import Standard


def test_where_queries_say_nothing_weights_decay_exponentially() -> None:
    layer = LinRpe(8, heads=2).attention(L=50, capacity=50)
    assert isinstance(layer, RelativeAttention)
    nothing, v = torch.zeros(1, 2, 50, 4), torch.eye(50).expand(1, 2, 50, 50)
    weights = layer.attend(nothing, nothing, v)[0, :, -1]
    lag, p = torch.arange(49, -1, -1.0), layer.log_slope.exp()[:, None]
    kernel = torch.exp(-p * lag)
    torch.testing.assert_close(weights, kernel / kernel.sum(-1, keepdim=True))


def test_costs_are_those_of_standard_attention() -> None:
    ours, standard = LinRpe(32), Standard(32)
    assert ours.parts(vocab=21, L=87) == standard.parts(vocab=21, L=87)
    assert ours.state_bytes(vocab=21, L=87) == standard.state_bytes(vocab=21, L=87)


def test_the_bias_is_all_it_knows_of_positions_by_default() -> None:
    assert LinRpe(32).positions == "none"
