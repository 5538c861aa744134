"""Warnings, which name the line of the user's code that they are about."""

from __future__ import annotations

import os
import sys
import warnings

from unmask.common.errors import UnmaskWarning

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def warn(message: str, kind: type[UnmaskWarning] = UnmaskWarning) -> None:
    """Warn at the nearest line outside of this package among those that led here.

    The depth is counted, not stated by the caller: the check of a public call lies between. From
    Python 3.12 on, `skip_file_prefixes` of `warnings.warn` does the same.
    """
    depth = 1  # the line that calls `warnings.warn`
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
        depth += 1
    warnings.warn(message, kind, stacklevel=depth)
