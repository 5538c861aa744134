"""`unmask-lm-eval`: the command `lm_eval` of the LM Evaluation Harness with the model `unmask`,
and errors in one line.

Releases of the harness that read the entry points of packages know the model by themselves;
0.4.13 does not.
"""

from __future__ import annotations

import sys
from typing import Any

from unmask.common.errors import InputError
from unmask.surfaces.cli import process

NAME = "unmask"
MODEL = "unmask.surfaces.integrations.harness:UnmaskLM"


def register() -> None:
    """Make the model known to the harness, without loading it."""
    try:
        from lm_eval.api.registry import model_registry
    except ImportError:
        raise InputError(
            "the harness needs lm-eval, which is not installed: pip install 'unmask[lm-eval]'"
        ) from None
    if NAME not in model_registry:
        model_registry.register(NAME, target=MODEL)


def main() -> None:
    """Run `lm_eval` with the same arguments."""
    process.listen()

    def evaluate() -> Any:
        register()
        from lm_eval.__main__ import cli_evaluate

        try:
            return cli_evaluate()
        except SystemExit as end:  # of the harness's parser
            return end.code

    sys.exit(process.guarded(evaluate, process.explained))
