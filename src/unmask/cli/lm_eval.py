"""`unmask-lm-eval`: the command `lm_eval` of the LM Evaluation Harness with the model `unmask`, and errors in one line.

Releases of the harness that read the entry points of packages know the model by themselves; 0.4.13 does not.
"""

from __future__ import annotations

import sys

from unmask.cli import process
from unmask.errors import InputError

NAME, MODEL = "unmask", "unmask.integrations.harness:UnmaskLM"


def register() -> None:
    """Make the model known to the harness, without loading it."""
    try:
        from lm_eval.api.registry import model_registry
    except ImportError:
        raise InputError("the harness needs lm-eval, which is not installed: pip install 'unmask[lm-eval]'") from None
    if NAME not in model_registry:
        model_registry.register(NAME, target=MODEL)


def main() -> None:
    """Run `lm_eval` with the arguments given; errors that the user can correct are one line, with exit code 2."""
    process.listen()
    try:
        register()
        from lm_eval.__main__ import cli_evaluate

        cli_evaluate()
    except KeyboardInterrupt:
        sys.exit(process.INTERRUPTED)
    except Exception as error:
        if (line := process.explained(error)) is None:
            raise
        process.print_line(f"error: {process.one_line(line)}")
        sys.exit(process.MISTAKE)


if __name__ == "__main__":
    main()
