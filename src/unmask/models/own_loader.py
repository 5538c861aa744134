"""A model that the user's own code loads: `loader.py:load`, or `package.module:load`.

The function has no arguments, or `device` and `dtype`, as torch's objects, if it wants them. It
returns what `unmask.load` returns, or a network and its tokenizer. So a network that needs code of
its own is the user's choice: a checkpoint's own code is never run.

Whose code runs: see `common.methods.own_code`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from unmask.common.checks import shown
from unmask.common.errors import InputError, ModelError, UnmaskError
from unmask.common.methods.own_code import (
    OwnCode,
    code_spelled,
    first_line_of,
    names_code,
    place_of,
)

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM

CACHED = 2
"""Models of own loaders that stay loaded, as of those given by name."""
OFFERED = ("device", "dtype")
"""Arguments that a loader may have."""


def names_loader(name: object) -> bool:
    """Whether a model's name is that of own code. A folder of that name is a folder."""
    if not isinstance(name, str) or not names_code(name):
        return False
    return not os.path.isdir(os.path.expanduser(name))


def loader_named(name: str) -> OwnCode:
    """The code that a model's name names; raises InputError if there is none, or where no own code
    may be loaded.
    """
    return code_spelled("model", name)


def load_own(name: str, device: str = "auto", dtype: str = "auto") -> MaskedLM:
    """The model of own code, loaded once per process, and again if its files have changed."""
    from unmask.models.loading_turns import LOADING

    code = loader_named(name)
    with LOADING:  # else two threads would load it twice
        return _loaded(code, code.sha256, device, dtype)


def load_own_uncached(name: str, device: str = "auto", dtype: str = "auto") -> MaskedLM:
    """The model of own code, always a new one."""
    return call_loader(loader_named(name), device, dtype)


@lru_cache(maxsize=CACHED)
def _loaded(code: OwnCode, sha256: str, device: str, dtype: str) -> MaskedLM:
    """The model, loaded again if the hash of the code is another."""
    return call_loader(code, device, dtype)


@dataclass(frozen=True)
class SentLoader:
    """Own code in another process, which gets its sources and no pickled function."""

    code: OwnCode
    sha256: str
    device: str
    dtype: str

    def load(self) -> MaskedLM:
        """Load the model from the user's own file, if this machine has it as it was sent: it may
        read what lies beside it. Else from the sources that were sent.
        """
        if self._is_here():
            return _loaded(self.code, self.sha256, self.device, self.dtype)
        function = self.code.load_sent()
        return model_of_function(function, self.code, self.device, self.dtype)

    def _is_here(self) -> bool:
        """Whether this machine has the file, and its content is what was sent."""
        try:
            here = loader_named(_absolute(self.code))
        except InputError:
            return False
        return here.path == self.code.path and here.sha256 == self.sha256


def sent_loader(name: str, device: str, dtype: str) -> SentLoader:
    """What another process needs to load the model of own code."""
    code = loader_named(name)
    return SentLoader(code=code, sha256=code.sha256, device=device, dtype=dtype)


def _absolute(code: OwnCode) -> str:
    """The code as one would name it in any working folder."""
    where = code.module or str(code.path)
    return f"{where}:{code.name}"


def stored_name(name: str) -> str:
    """The model in the settings of a run: the file's own name, whatever folder it lies in, and the
    hash of the code.
    """
    return loader_named(name).stored_text


# ---- calling the user's function ----


def call_loader(code: OwnCode, device: str, dtype: str) -> MaskedLM:
    """The model that the function of own code returns."""
    return model_of_function(code.load("model"), code, device, dtype)


def model_of_function(function: Any, code: OwnCode, device: str, dtype: str) -> MaskedLM:
    """The model that a function returns.

    Raises InputError, in one line, for what is no such function, for an error inside it, and for
    a model on another device or in another format than the user asked for.
    """
    what = f"{code.path.name}:{code.name}"
    if not callable(function):
        raise _refused(f"{what} is {shown(function)}, which is not a function", "name one")
    arguments = _arguments_of(function, what, device, dtype)
    try:
        returned = function(**arguments)
    except ModelError:  # the model itself cannot be used
        raise
    except Exception as error:  # an InputError names an argument of a call in the file
        raise _failed(error, code) from None
    try:
        model = model_of_returned(returned, what)
    except UnmaskError:
        raise
    except Exception as error:
        raise _failed(error, code) from None
    _refuse_another(model, what, device, dtype)
    return model


def _arguments_of(
    function: Callable[..., Any], what: str, device: str, dtype: str
) -> dict[str, Any]:
    """What the function is called with: `device` and `dtype`, those of the two that it has."""
    from unmask.models.checkpoint import resolve_dtype
    from unmask.runs.devices import resolve_device

    resolved = {"device": resolve_device(device), "dtype": resolve_dtype(dtype)}
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions of C have no signature
        parameters = {}.values()
    by_name = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    for one in by_name:
        if one.name not in OFFERED and one.default is one.empty:
            raise _refused(
                f"{what} needs the argument {one.name}", "write a function without arguments"
            )
    names = [one.name for one in by_name]
    return {name: value for name, value in resolved.items() if name in names}


def model_of_returned(returned: Any, what: str) -> MaskedLM:
    """The model that a user's function returned: a `MaskedLM`, or one made of a network and its
    tokenizer.

    what   the function, in messages
    """
    from unmask.models.masked_lm import MaskedLM

    if isinstance(returned, MaskedLM):
        return returned
    if isinstance(returned, tuple | list) and len(returned) == 2:
        network, tokenizer = returned
        if hasattr(network, "config") and hasattr(network, "base_model"):
            return MaskedLM(network, tokenizer, what)
        if callable(network):  # a plain module of torch, or a function from ids to logits
            return MaskedLM.of(network, tokenizer, name=what)
    raise _refused(
        f"{what} returned {shown(returned)}, which is not a model",
        "return what unmask.load returns, or a network and its tokenizer",
    )


def _refuse_another(model: MaskedLM, what: str, device: str, dtype: str) -> None:
    """Raise if the user asked for a device or a format, and the model has another."""
    from unmask.models.checkpoint import resolve_dtype
    from unmask.runs.devices import resolve_device

    if device != "auto" and model.device.type != resolve_device(device).type:
        raise InputError(
            f"{device} was asked for, and {what} returned a model on {model.device}",
            argument="device",
            use="give the function a parameter device, or leave it out",
        )
    if dtype != "auto" and model.dtype != resolve_dtype(dtype):
        raise InputError(
            f"{dtype} was asked for, and {what} returned a model in"
            f" {str(model.dtype).removeprefix('torch.')}",
            argument="dtype",
            use="give the function a parameter dtype, or leave it out",
        )


def _failed(error: Exception, code: OwnCode) -> InputError:
    return _refused(f"{place_of(error, code)}: {first_line_of(error)}", "mend the file")


def _refused(problem: str, use: str) -> InputError:
    return InputError(problem, argument="model", use=use)
