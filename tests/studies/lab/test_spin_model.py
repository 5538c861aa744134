"""The fields of a spin model, as users write them."""

import numpy as np
import pytest

from unmask.common.errors import InputError
from unmask.studies.lab.spin_model import read_fields


def test_fields_are_read_in_each_way():
    assert read_fields("0.5", 3).tolist() == read_fields(0.5, 3).tolist() == [0.5] * 3
    assert (
        read_fields("0.1,-2,3e-1", 3).tolist()
        == read_fields([0.1, -2, 0.3], 3).tolist()
        == [0.1, -2, 0.3]
    )
    assert read_fields("-1:1", 3).tolist() == [-1, 0, 1]
    np.testing.assert_array_equal(
        read_fields("normal:0.2:3", 4), 0.2 * np.random.default_rng(3).normal(size=4)
    )


@pytest.mark.parametrize(
    "value", ["", "1,2", "1:2:3", "normal:1", "normal:a:1", "normal:1:-2", "inf", [[1.0]], b"x"]
)
def test_bad_fields_are_refused(value):
    with pytest.raises(InputError, match="fields"):
        read_fields(value, 3)
