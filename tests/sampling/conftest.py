"""What several files need."""

import pytest


@pytest.fixture
def stop_at():
    """A progress report that raises once so many sweeps are done, over all groups."""

    def made(sweeps, blow=KeyboardInterrupt):
        def report(done, total, what=""):
            if done >= sweeps:
                raise blow

        return report

    return made
