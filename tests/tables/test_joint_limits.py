"""Which joints are too large, and what is advised instead."""

import pytest

from unmask.common.errors import InputError
from unmask.tables.joint_limits import MAX_PASSES, check_feasible, is_feasible, largest_feasible


def test_too_many_passes_or_cells_are_refused_with_what_would_fit():
    check_feasible([28_996] * 2, 28_996)
    check_feasible([20] * 4, 20)
    with pytest.raises(
        InputError,
        match=r"12,012,001 passes .* 8,000,000,000 cells .* use candidates=(\d+) or fewer",
    ) as refused:
        check_feasible([2_000] * 3, 8_000)
    fits = int(str(refused.value).split("candidates=")[1].split()[0])
    check_feasible([fits] * 3, 8_000)
    with pytest.raises(InputError):
        check_feasible([fits + 1] * 3, 8_000)
    with pytest.raises(InputError, match="use fewer blanks"):
        check_feasible([2] * 30, 8_000)
    check_feasible([2_000] * 3, 8_000, force=True)


@pytest.mark.parametrize("passes", [1, 24, 1500, MAX_PASSES])
def test_the_largest_feasible_number_is_the_last_that_fits(passes):
    for sites in range(1, 12):
        for most in (1, 2, 63, 64):
            fitting = [n for n in range(1, most + 1) if is_feasible([n] * sites, passes)]
            assert largest_feasible(sites, most, passes) == max(fitting, default=1)
