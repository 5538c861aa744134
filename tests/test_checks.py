import jaxtyping
import numpy as np
import pytest
import torch

import shape_checks
from unmask.checks import numbers, one_of, real, whole
from unmask.errors import InputError


def test_known_name_comes_back_and_unknown_gets_the_nearest():
    assert one_of("joint", "mrf", ["mrf", "hcb"]) == "mrf"
    with pytest.raises(InputError, match=r"joint 'chian' is unknown: did you mean chain\? Use one of chain, hcb"):
        one_of("joint", "chian", ["chain", "hcb"])
    with pytest.raises(InputError, match="joint 'zzz' is unknown: use one of chain, hcb"):
        one_of("joint", "zzz", ["chain", "hcb"])


def test_whole_takes_whole_numbers_in_the_range():
    assert whole("top", np.int64(7), 1, 10) == 7 and type(whole("top", np.int64(7), 1, 10)) is int
    for value, message in ((0, "out of range: give a whole number from 1 to 10"), (True, "not a whole number"), ("3", "not a")):
        with pytest.raises(InputError, match=f"top {value!r} is {message}"):
            whole("top", value, 1, 10)


def test_real_takes_the_bounds_and_finite_numbers():
    assert real("share", 0, 0, 1) == 0.0 and real("share", np.float32(0.5), 0, 1) == 0.5
    for value in (-1, float("nan"), float("inf"), "1", True, 11):
        with pytest.raises(InputError, match="temperature"):
            real("temperature", value, 0, 10)


def test_numbers_with_commas():
    assert numbers("positions", "3,4", int) == [3, 4] and numbers("ladder", "1,1.5", float) == [1.0, 1.5]
    with pytest.raises(InputError, match="positions '3;4' is not understood"):
        numbers("positions", "3;4", int)


def test_shapes_are_checked_while_the_tests_run():
    pytest.importorskip("beartype")
    from unmask.training.objectives import FixedRate, capacity

    assert capacity(FixedRate(), 2, 32, 8.0) == 64
    with pytest.raises(jaxtyping.TypeCheckError, match="capacity"):
        capacity(FixedRate(), "2", 32, 8.0)


def test_compiled_code_is_not_checked():
    from unmask.training.encoder import _dropped

    assert "unmask.training.encoder" not in shape_checks.checked_modules()
    assert "unmask.training.objectives" in shape_checks.checked_modules()
    text = torch.arange(3)
    compiled = torch.compile(_dropped, backend="eager", fullgraph=True)
    assert torch.equal(compiled(text, 0.0), text)
