"""The flows of pairs, summed tile by tile, against sums over whole tables."""

from collections.abc import Iterator

import pytest
import torch

from support.joint_cases import tables_from
from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.members import Members, Site, flat, start
from unmask.joints.pair_flows import column_flows, row_flows
from unmask.joints.tiles import tiles

SHAPE = (384, 900)
MEMBERS = [Member(0.0), Member(0.5, 0.25), Member(1.0), Member(1.0, 0.1)]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread sums all tiles, in the same memory."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def a_pair(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, Site, Site]:
    """Both tables as probabilities, over several tiles, and the sites u and v of all members."""
    generator = torch.Generator().manual_seed(1)
    a, b = torch.rand((2, *SHAPE), generator=generator, dtype=torch.float64).to(dtype).unbind()
    assert len(list(tiles(a))) > 1
    between = [torch.randn(n, generator=generator, dtype=dtype).log_softmax(0) for n in SHAPE]
    tables = tables_from([a.log(), b.log()], between)
    members = Members.of([tables], [Member(0.0)])
    points = flat(start(tables)).expand(len(MEMBERS), -1)
    alpha, restart = torch.tensor(MEMBERS, dtype=torch.float64).split(1, 1)
    members = Members(
        blocks=members.blocks,
        owner=(0,) * len(MEMBERS),
        alpha=alpha,
        restart=restart,
        log_chain=points,
        sizes=members.sizes,
        restarts=True,
    )
    (v, u), _ = members.sites_at(points, dtype)
    return a, b, u, v


@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_sums_of_tiles_are_those_of_whole_tables(dtype: torch.dtype, within: float) -> None:
    a, b, u, v = a_pair(dtype)
    k = 1 / (u.scale[:, :, None] + v.scale[:, None, :])
    ka, kb = k * a, k * b
    into_u = (ka * v.into[:, None, :] + u.added[:, :, None] * kb * v.scale[:, None, :]).sum(2)
    out_of_u = (kb * v.out[:, None, :]).sum(2)
    into_v = (kb * u.into[:, :, None] + v.added[:, None, :] * ka * u.scale[:, :, None]).sum(1)
    out_of_v = (ka * u.out[:, :, None]).sum(1)
    of_rows = row_flows(a, b, u, v)
    of_columns = column_flows(a, b, u, v)
    torch.testing.assert_close(of_rows, torch.stack([into_u, out_of_u]), rtol=within, atol=0)
    torch.testing.assert_close(of_columns, torch.stack([into_v, out_of_v]), rtol=within, atol=0)
