"""Contexts without mass against the stationary distribution of a random scan."""

import torch

from joints.test_enclosure import ruled_out
from support.joint_cases import random_scan_step, without
from unmask.joints.members import unflat
from unmask.joints.without_mass import without_mass


def test_without_mass_are_the_contexts_of_what_is_ruled_out():
    tables = ruled_out((0, 1))
    shape = tables.shape
    holds = [~m for m in unflat(without_mass(tables.log_q, None), shape)]
    stationary = random_scan_step(tables).T.matrix_power(4096)[:, 0].reshape(shape)
    assert [m.tolist() for m in holds] == [(m > 1e-12).tolist() for m in without(stationary)]
    assert without_mass(ruled_out(()).log_q, None) is None
    chain = torch.full((27,), -torch.inf, dtype=torch.float64)
    chain[0] = 0.0
    with_restarts = without_mass(tables.log_q, chain)
    assert not with_restarts[0]
    assert with_restarts.sum() >= without_mass(tables.log_q, None).sum() - 1
