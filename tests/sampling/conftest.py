"""Puts the shared cases on the path, and what several files need."""

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def interrupted_at():
    """A context in which every run is interrupted once it has done so many sweeps."""
    from unmask.sampling.markov_run import MarkovRun

    @contextmanager
    def at(sweeps):
        sweep = MarkovRun.sweep

        def stop(run):
            if run.done == sweeps:
                raise KeyboardInterrupt
            sweep(run)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MarkovRun, "sweep", stop)
            yield

    return at
