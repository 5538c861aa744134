"""A command line of each command that is right, and the commands' own options: what generated tests start from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unmask.cli.app import command
from unmask.options import VERBS

FINE = {
    "fill": "fill 'the [MASK] sat' --model {model}",
    "compare": "compare 'the [MASK] [MASK]' --model {model}",
    "dependence": "dependence 'the [MASK] [MASK]' --model {model}",
    "mutants": "mutants 'the cat sat' --positions 2 --alphabet the,cat,dog --model {model}",
    "evaluate": "evaluate --data {world}/texts.txt --out {new} --model {model} --pairs 2",
    "frontier": "frontier --data {world}/texts.txt --out {new} --model {model} --length 3 --first --passes 2",
    "score": "score 'the cat sat' --model {model}",
    "sample": "sample --out {new} --model {model} --chains 2 --sweeps 1 --length 3",
    "diagnose": "diagnose {world}/run",
    "train": "train {world}/texts.txt --valid {world}/texts.txt --out {new} --device cpu --steps 1 --cache {new}-cache "
    "--layers 1 --width 16 --heads 1 --vocab 64 --max-length 16 --batch-tokens 48",
    "translate": "translate {world}/texts.txt --model {model}",
    "check": "check --model {model}",
    "serve": "serve --model {model}",
    "lab dictionary": "lab dictionary --out {new}",
    "lab masking": "lab masking --out {new}",
    "lab dependence": "lab dependence --out {new}",
    "lab parallel": "lab parallel --out {new}",
    "lab stutter": "lab stutter --out {new}",
    "lab schedule": "lab schedule --out {new}",
    "lab decoding": "lab decoding --out {new}",
    "lab all": "lab all --out {new}",
}
"""Right but for the option that is tried. An argument stands first, right after the command's name."""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command, those of `lab` too, by name."""
    for name in VERBS:
        found = command(name)
        inner = getattr(found, "commands", None)
        yield from [(name, found)] if inner is None else [(f"{name} {part}", one) for part, one in inner.items()]
