"""Compiles every Triton program of the library for a card of compute capability 9.0, without
one; run as a script.

The modules are imported under the tests' shape checks. Launches on tensors of the CPU are
compiled and go no further. Prints the functions that no program reached, then what the compiler
says of a program that the shape checks decorate.
"""

from collections.abc import Callable
from importlib import import_module, reload
from importlib.util import find_spec

import torch
from jaxtyping import install_import_hook
from torch import nn
from triton.backends.compiler import GPUTarget
from triton.compiler import CompilationError
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from support import shape_checks

CPU = torch.device("cpu")


class Card:
    """Says to Triton what it compiles for."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def launches() -> list[Callable[[], object]]:
    """One of each program."""
    from unmask.joints import precompile
    from unmask.models.encoder.layers import Turn
    from unmask.models.encoder.triton_programs import (
        add_norm,
        linear_activated,
        long_attention,
        short_attention,
        turned,
    )
    from unmask.sampling.engine import triton_programs as drawing
    from unmask.sampling.engine.token_draw import TokenDraw
    from unmask.tables import triton_cells

    half = {"dtype": torch.float16}
    states, norm, inner = (
        torch.zeros(2, 16, 64, **half),
        nn.LayerNorm(64, **half),
        nn.Linear(64, 256, **half),
    )
    in_float32, stored_in_half = nn.Linear(64, 256), nn.Linear(64, 256).half().float()
    sites, logits = torch.zeros(3, dtype=torch.long), torch.zeros(3, 50)
    allowed, uniform = torch.ones(1, 50, dtype=torch.bool), torch.zeros(3, dtype=torch.float64)
    of_pairs = precompile.launches(37, CPU)
    return [
        lambda: add_norm(norm, states, states),
        lambda: add_norm(norm, states, states, before=True),
        lambda: short_attention(states, states, states, 2),
        lambda: short_attention(
            states, states, states, 2, Turn(states[0, :, :32], states[0, :, :32]), 8
        ),
        lambda: long_attention(states, states, states, 2, 8),
        lambda: turned(states, Turn(states[0, :, :32], states[0, :, :32])),
        lambda: linear_activated(inner, "gelu", states),
        lambda: linear_activated(inner, "swish", states, gates=True),
        lambda: linear_activated(in_float32, "none", states.float()),
        lambda: linear_activated(stored_in_half, "gelu", states.float()),
        lambda: linear_activated(in_float32, "swish", states.float(), gates=True),
        lambda: short_attention(states.float(), states.float(), states.float(), 1),
        lambda: triton_cells.precompile(100, 100, CPU),
        lambda: drawing.uniform_on_gpu((1, 2, 3, 4, 5), sites, sites[None]),
        lambda: drawing.draw_on_gpu(TokenDraw(logits, allowed, sites, sites, 1.0, uniform)),
        lambda: drawing.log_normaliser_on_gpu(logits),
        *(of_pairs[i] for i in (0, 1, 4, 5)),
    ]


def unreached() -> list[str]:
    """Functions for Triton that have no key of compiled code."""
    values = [
        value
        for name in shape_checks.triton_modules()
        for value in vars(import_module(name)).values()
    ]
    return sorted(
        {
            f"{f.__module__}.{f.__name__}"
            for f in values
            if isinstance(f, JITFunction) and f.hash is None
        }
    )


def main() -> None:
    """Compile, then decorate one module and compile its program again."""
    shape_checks.install()
    driver.set_active(Card())
    JITFunction.__getitem__ = lambda program, grid: (
        lambda *args, **constants: program.warmup(*args, grid=grid, **constants)
    )
    for launch in launches():
        launch()
    print("unreached:", *unreached())
    if find_spec("beartype") is not None:
        install_import_hook("unmask.models.encoder.triton_programs", "beartype.beartype")
        reload(import_module("unmask.models.encoder.triton_programs"))
        try:
            launches()[0]()
        except CompilationError as error:
            print("decorated:", str(error).splitlines()[-1])


if __name__ == "__main__":
    main()
