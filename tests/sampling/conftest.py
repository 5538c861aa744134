"""Puts the shared cases on the path, and what several files need."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def stop_at():
    """A progress report that raises once so many sweeps are done, over all groups."""

    def made(sweeps, blow=KeyboardInterrupt):
        def report(done, total, what=""):
            if done >= sweeps:
                raise blow

        return report

    return made
