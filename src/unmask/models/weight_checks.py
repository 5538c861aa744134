"""Weights that cannot be the network's: tensors that are missing, left over, or of another shape,
whole numbers, and numbers that are not finite.

A network that lacks a tensor, or that ignores one of its encoder, still gives numbers. So it is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

import torch
from torch import nn

from unmask.common.errors import ModelError, UnmaskWarning
from unmask.common.warn import warn
from unmask.models.checkpoint_files import MERGE_ADAPTER, WEIGHTS

UNUSED_BY_LOGITS = (
    "pooler.",
    "contact_head.",
    "seq_relationship.",
    "position_ids",
    "token_type_ids",
)
"""Parts of the names of tensors that no logit needs: those of other heads, and fixed numbers."""
OF_ADAPTERS = re.compile(
    r"\b(lora_|loha_|lokr_|ia3_|oft_|vera_|hada_|base_layer\b|modules_to_save\b|adapters?\b)"
)
"""In the names of tensors of adapters, such as LoRA, and of layers that one is wrapped around."""
SHOWN = 3
"""Names, or groups of names, that a message shows."""
OTHER_CONFIG = "use the config that the weights were saved with"


class LeftOut(UnmaskWarning):
    """Tensors of other heads lie beside that of the language model; no logit needs them."""


def unused_by_logits(name: str) -> bool:
    """Whether a tensor is that of another head, or fixed numbers."""
    return any(part in name for part in UNUSED_BY_LOGITS)


def refuse_misfit(
    source: str,
    prefix: str,
    missing: Collection[str],
    unexpected: Collection[str],
    misshapen: Collection[str] = (),
) -> None:
    """Raise ModelError if the tensors of a file are not those of the network.

    Tensors of other heads may lie beside: a warning names them.

    source       what messages call the file
    prefix       the beginning of the names of the encoder's tensors
    missing      names of tensors that the network has and the file lacks
    unexpected   names of tensors that the file has and the network lacks
    misshapen    names of tensors that have another shape in the network
    """
    missing = _used_by_logits(missing)
    unexpected = _used_by_logits(unexpected)
    adapters = [name for name in unexpected if OF_ADAPTERS.search(name)]
    if adapters:
        raise ModelError(
            f"{len(adapters)} tensors of {source!r} are those of an adapter ({_listed(adapters)}):"
            f" {MERGE_ADAPTER}"
        )
    if misshapen:
        raise ModelError(
            f"{len(misshapen)} tensors of {source!r} do not have the shapes that its config.json"
            f" states ({_listed(misshapen)}): {OTHER_CONFIG}"
        )
    if missing:
        of_encoder = any(name.startswith(prefix) for name in missing)
        part = "encoder" if of_encoder else "language-model head"
        without_place = ""
        if unexpected:  # perhaps the same tensors by other names
            without_place = (
                f", while {len(unexpected)} of the file have no place ({_listed(unexpected)})"
            )
        raise ModelError(
            f"{len(missing)} tensors of the {part} of {source!r} are missing ({_listed(missing)})"
            f"{without_place}: use a checkpoint saved with all of them, or rename its tensors"
        )
    ignored = [name for name in unexpected if name.startswith(prefix)]
    if ignored:
        raise ModelError(
            f"{len(ignored)} tensors of the encoder of {source!r} have no place in the network that"
            f" its config.json states ({_listed(ignored)}): {OTHER_CONFIG}"
        )
    if unexpected:
        warn(
            f"{len(unexpected)} tensors of {source!r} belong to other heads and are left out"
            f" ({_listed(unexpected)})",
            LeftOut,
        )


def _used_by_logits(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if not unused_by_logits(name))


def _listed(names: Iterable[str]) -> str:
    """The first SHOWN names, those of one layer or one part of a head as one:
    `bert.encoder.layer.1.* (16)`.
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(_group(name), []).append(name)
    shown = []
    for group, members in groups.items():
        if len(members) == 1:
            shown.append(members[0])
        else:
            shown.append(f"{group}.* ({len(members)})")
    listed = ", ".join(shown[:SHOWN])
    more = len(shown) - SHOWN
    if more > 0:
        return f"{listed} and {more} more"
    return listed


def _group(name: str) -> str:
    """The name of a tensor's layer, up to its number; or the first two parts of its own."""
    layer = re.match(r".*?\.\d+(?=\.)", name)
    if layer is not None:
        return layer.group()
    return ".".join(name.split(".")[:2])


def refuse_whole_numbers(folder: Path) -> None:
    """Raise ModelError if a weight or a bias of a folder is not stored as floating-point numbers.

    Libraries turn whole numbers into floating-point ones silently; they are a quantised
    model's, without its scales.
    """
    whole_numbers: dict[str, torch.dtype] = {}
    for path in _files_that_are_read(folder):
        for name, dtype in _dtypes_in(path).items():
            if name.endswith(("weight", "bias")) and not dtype.is_floating_point:
                whole_numbers[name] = dtype
    if whole_numbers:
        first_dtype = next(iter(whole_numbers.values()))
        raise ModelError(
            f"{len(whole_numbers)} tensors of {str(folder)!r} are stored as {str(first_dtype)[6:]},"
            f" not as floating-point numbers ({_listed(whole_numbers)}): save them as float32"
        )


def _files_that_are_read(folder: Path) -> list[Path]:
    """The files of weights that transformers reads, if several lie beside each other."""
    whole_model = folder / WEIGHTS
    if whole_model.is_file():
        return [whole_model]
    parts = list(folder.glob("model*.safetensors"))
    return parts or list(folder.glob("pytorch_model*.bin"))


def _dtypes_in(path: Path) -> dict[str, torch.dtype]:
    """The number format of each tensor of a file; single numbers of safetensors are left out."""
    if path.suffix == ".bin":
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor.dtype for name, tensor in tensors.items()}
    from safetensors import safe_open

    dtypes = {}
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118  (the file itself has no iterator)
            stored = file.get_slice(name)
            if stored.get_shape():
                dtypes[name] = stored[:0].dtype  # without reading the numbers
    return dtypes


def refuse_non_finite(network: nn.Module, source: str) -> None:
    """Raise ModelError if a weight is infinite or NaN.

    source   what the message calls the checkpoint
    """
    for name, parameter in network.named_parameters():
        numbers = parameter.detach()
        if bool(numbers.sum().isfinite()):
            continue  # then all of them are, and a sum is fast; it may overflow, too
        not_finite = int((~numbers.isfinite()).sum())
        if not_finite > 0:
            raise ModelError(
                f"{not_finite:,} of the {numbers.numel():,} numbers of {name!r} of {source!r} are"
                " not finite: use a checkpoint from before its training diverged"
            )
