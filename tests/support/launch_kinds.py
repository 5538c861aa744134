"""What Triton's programs are compiled for: noted where Triton interprets them, heard from the
compiler elsewhere.
"""

from importlib import import_module
from inspect import signature
from types import ModuleType

import pytest
import torch

from support.shape_checks import triton_modules

Kind = tuple[object, ...]


class Recorder:
    """Takes a program's place. A kind has the program's constants, the types of its arguments,
    and which addresses and numbers are multiples of 16 or are 1. The program is launched unless
    `launched` is false.
    """

    def __init__(self, kinds: set[Kind], program, launched: bool) -> None:
        self.kinds, self.program, self.launched = kinds, program, launched

    def __getitem__(self, grid):
        def launch(*args, **constants):
            names, free = (
                list(signature(self.program.fn).parameters),
                self.program.kwargs["do_not_specialize"],
            )
            arguments = tuple(
                _kind(value, name not in free) for name, value in zip(names, args, strict=False)
            )
            self.kinds.add((self.program.fn.__name__, arguments, tuple(sorted(constants.items()))))
            if self.launched:
                self.program[grid](*args, **constants)

        return launch


def _kind(value, specialized):
    if isinstance(value, torch.Tensor):
        return value.dtype, specialized and value.data_ptr() % 16 == 0
    return (value % 16 == 0, value == 1) if specialized else None


def record(
    patch: pytest.MonkeyPatch, module: ModuleType, *names: str, launched: bool = True
) -> set[Kind]:
    """The kinds of all launches of these programs from here on."""
    kinds: set[Kind] = set()
    for name in names:
        patch.setattr(module, name, Recorder(kinds, getattr(module, name), launched))
    return kinds


def compilations(patch: pytest.MonkeyPatch) -> list[str]:
    """The names of the programs that are compiled from here on; those that were compiled before
    are forgotten.
    """
    from triton import knobs
    from triton.runtime.jit import JITFunction

    for name in triton_modules():
        for program in vars(import_module(name)).values():
            if isinstance(program, JITFunction):
                compiled_before, *_ = program.device_caches[torch.cuda.current_device()]
                compiled_before.clear()
    compiled: list[str] = []
    patch.setattr(knobs.compilation, "listener", lambda **about: compiled.append(about["src"].name))
    return compiled
