"""Where numbers come from: when, by which command, with which versions, on which hardware.

Nothing is imported for it: versions are those of the installed packages, and a GPU is asked for only where torch is
already loaded.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from unmask import __version__

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow", "ray")


def provenance() -> dict[str, Any]:
    """{date, command, versions, processor, cores, gpu}, for settings files and reports."""
    versions = {"unmask": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
        "versions": versions,
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "gpu": _gpu(),
    }


def _gpu() -> str | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name())
