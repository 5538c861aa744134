"""Shapes and types of the modules below are checked while the tests run, wherever beartype is installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

CHECKED = ["unmask.models", "unmask.conditionals", "unmask.candidates", "unmask.filling", "unmask.comparison", "unmask.energies"]
"""Where tensors of given shapes come in; checks in the solvers' inner loops would triple their tests' time."""

if find_spec("beartype") is not None:
    from jaxtyping import install_import_hook

    install_import_hook(CHECKED, "beartype.beartype")


@pytest.fixture(scope="session")
def english():
    """The bundled English model."""
    from unmask.models.masked_lm import MaskedLM

    return MaskedLM.load(device="cpu")
