"""Stops the set-up when pip would fetch a CUDA build of torch: reads the report of a dry run,
downloads nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

report = json.loads(Path(sys.argv[1]).read_text())
for package in report["install"]:
    needs = [
        line for line in package["metadata"].get("requires_dist", []) if "extra ==" not in line
    ]
    cuda = [line.split()[0] for line in needs if line.startswith(("nvidia-", "cuda-"))]
    if cuda and sys.platform == "linux":
        sys.exit(
            f"error: pip would fetch a CUDA build of torch {package['metadata']['version']} and"
            f" {len(cuda)} CUDA packages, several gigabytes: set PIP_EXTRA_INDEX_URL to PyTorch's"
            " index of CPU wheels (pytorch.org, 'Get started'), or install torch into .venv"
            " yourself"
        )
