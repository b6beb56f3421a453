"""What every kind of cluster inherits: how many trials its nodes hold, what trials cost there, and
which places for results its nodes cannot reach. Covers `grid/placement.py`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.cluster.base import Work
from sweepd.cluster.jobs import Address
from sweepd.errors import UserError
from sweepd.grid.placement import CONTEXT_BYTES, Nodes, Resources, torchs_share


def cluster(**nodes: Nodes) -> Address:
    return Address(kind="address", address="http://127.0.0.1:8265", nodes=nodes)


@pytest.mark.parametrize("address", ["s3://bucket/results", "gs://bucket", "/shared/results"])
def test_results_that_all_nodes_may_reach(address: str) -> None:
    cluster().check_results(address)


@pytest.mark.parametrize("address", ["results", "./results", "ftp://host/results"])
def test_results_in_a_folder_of_this_machine_are_refused(address: str) -> None:
    with pytest.raises(UserError, match=f"{address}: the nodes of a cluster do not see"):
        cluster().check_results(address)


def test_slots_are_those_of_all_nodes() -> None:
    mixed = cluster(small=Nodes(3, 4), large=Nodes(2, 8, 1))
    assert mixed.slots(Resources(2)) == 3 * 2, "cards stay for trials that ask for one"
    assert cluster(head=Nodes(1, 0), large=Nodes(2, 8, 1)).slots(Resources(2, 1)) == 2
    assert mixed.slots(Resources(1, 0.5)) == 2 * 2
    assert cluster().slots(Resources(2)) == 0, "only the cluster knows"
    with pytest.raises(UserError, match="the largest node has"):
        mixed.slots(Resources(16))


@pytest.mark.parametrize(
    ("nodes", "per_trial", "advice"),
    [
        ({"node": Nodes(4, 32, 4)}, Resources(), "{cpus: 8, gpus: 1}"),
        ({"head": Nodes(1, 0), "card": Nodes(8, 8, 1)}, Resources(2), "{cpus: 8, gpus: 1}"),
        ({"small": Nodes(1, 1), "card": Nodes(8, 8, 1)}, Resources(2), "{cpus: 8, gpus: 1}"),
    ],
)
def test_cards_that_would_idle_are_refused(
    nodes: dict[str, Nodes], per_trial: Resources, advice: str
) -> None:
    with pytest.raises(UserError, match="the cards would idle") as refused:
        cluster(**nodes).slots(per_trial)
    assert advice in str(refused.value)


def test_the_cost_is_that_of_the_cheapest_nodes_and_of_the_dearest() -> None:
    """Of a trial an hour: 1 dollar on a cheap node of two, 6 dollars on a dear node of one."""
    head = Nodes(1, 0.5, price=0.3, least=1)
    mixed = cluster(head=head, cheap=Nodes(2, 2, price=2), dear=Nodes(4, 1, price=6))
    for at_once, low, high in ((1, 2, 6), (2, 2, 12), (5, 4 + 6, 24 + 2)):
        found = mixed.cost(Resources(1), at_once, 3600, 7200)
        assert found == pytest.approx((low + 0.3, 2 * (high + 0.3)))


def test_work_is_one_command_for_a_shell() -> None:
    work = Work("s", "/it's", ("launch", "grid.yaml", "--results", "/it's"), Path())
    assert work.command("/my env/python") == (
        "'/my env/python' -m sweepd launch grid.yaml --results '/it'\"'\"'s'"
    )


@given(st.sampled_from([0.05, 0.1, 0.25, 0.3, 0.5]), st.integers(2 << 30, 140 << 30))
def test_shares_fit_a_card_with_their_contexts(gpus: float, total: int) -> None:
    held = int(1 / gpus + 1e-9)
    taken = [torchs_share(gpus, total) * total + CONTEXT_BYTES] * held
    assert sum(taken) <= total + held or torchs_share(gpus, total) == 0
    assert torchs_share(1.0, total) == 1.0
