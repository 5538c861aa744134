"""Other libraries log; a command prints its own lines alone."""

from __future__ import annotations

import subprocess
import sys

LOGS = """
import logging
from unmask.cli import process
with process.one_line_warnings():
    logging.getLogger("matplotlib").warning("created a temporary cache directory")
    logging.getLogger("unmask.models").warning("ours")
logging.getLogger("matplotlib").warning("after")
"""


def test_what_other_libraries_log_is_not_printed():
    done = subprocess.run([sys.executable, "-c", LOGS], capture_output=True, text=True, timeout=600)
    assert done.stderr.splitlines() == ["warning: ours", "after"]
