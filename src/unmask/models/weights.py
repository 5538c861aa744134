"""A checkpoint's tensors: read without running code, renamed on request, and checked against the network.

A network that lacks a tensor computes with random numbers, and one that ignores a tensor of its encoder computes something
else than what was trained (a config.json with too few layers). Both are refused, with the names.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from unmask.errors import InputError, ModelError, UnmaskWarning
from unmask.models.source import first_line

UNUSED_BY_LOGITS = ("pooler.", "contact_head.", "seq_relationship.", "position_ids", "token_type_ids")
SHOWN = 3
WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
VOCABULARY = "vocabulary"
"""In the metadata of a safetensors file that `unmask train` wrote: `vocabulary_hash` of the model's tokenizer."""


class LeftOut(UnmaskWarning):
    """Tensors of other heads lie beside that of the language model; no logit needs them."""


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder: safetensors, whole or in parts, else a pickle read as weights only."""
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        tensors |= read_file(path)
    return tensors


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder that its weights are read from: the first of these that is there, as transformers chooses."""
    for path in (folder / name for name in WEIGHT_FILES):
        if not path.is_file():
            continue
        if path.suffix != ".json":
            return [path]
        try:
            return sorted({folder / Path(name).name for name in json.loads(path.read_text())["weight_map"].values()})
        except Exception as error:
            raise ModelError(why_not_read(error, str(path))) from None
    if files := sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin")):
        return files
    raise ModelError(f"folder {str(folder)!r} has no weights: put model.safetensors beside config.json")


def stored_types(folder: Path) -> dict[str, torch.dtype]:
    """The number format of each tensor of a folder; of safetensors, without reading the numbers."""
    from safetensors import safe_open

    found: dict[str, torch.dtype] = {}
    for path in weight_files(folder):
        if path.suffix != ".safetensors":
            found |= {name: tensor.dtype for name, tensor in read_file(path).items()}
            continue
        with safe_open(path, "pt") as file:
            found |= {name: file.get_slice(name)[:0].dtype for name in file.keys() if file.get_slice(name).get_shape()}  # noqa: SIM118
    return found


def as_safetensors(tensors: dict[str, Tensor], vocabulary: str) -> bytes:
    """The content of a safetensors file that notes the hash of its vocabulary; equal arguments give equal bytes.

    safetensors writes several entries of metadata in random order, so the second is put in here.
    """
    from safetensors.torch import save

    plain = save(tensors, {"format": "pt"})
    begin = 8 + int.from_bytes(plain[:8], "little")
    header = json.loads(plain[8:begin])
    header["__metadata__"][VOCABULARY] = vocabulary
    written = json.dumps(header, separators=(",", ":")).encode()
    written += b" " * (-len(written) % 8)
    return len(written).to_bytes(8, "little") + written + plain[begin:]


def noted_vocabulary(folder: Path) -> str | None:
    """The hash of the vocabulary that the weights of a folder were trained with, if they note it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / "model.safetensors", "pt") as file:
            return (file.metadata() or {}).get(VOCABULARY)
    except (SafetensorError, OSError):
        return None


def refuse_whole_numbers(stored: Mapping[str, torch.dtype], wanted: Collection[str], source: str) -> None:
    """Raise if a weight (a name in `wanted`, with or without the name of a part before it) is not a floating-point number.

    Libraries turn whole numbers into floating-point ones silently; they are a quantised model's, without its scales.
    """
    ends = {end for name in wanted for end in _ends(name)}
    whole = {name: kind for name, kind in stored.items() if not kind.is_floating_point and ends & set(_ends(name)[:2])}
    if whole:
        kind = str(next(iter(whole.values()))).removeprefix("torch.")
        raise ModelError(
            f"{len(whole)} tensors of {source!r} are stored as {kind}, not as floating-point numbers ({_listed(whole)}): "
            "save them as float32"
        )


def read_file(path: Path) -> dict[str, Tensor]:
    """The tensors of one file; a pickle that holds more than tensors is not run but refused."""
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}
    except Exception as error:
        raise ModelError(why_not_read(error, str(path))) from None


def why_not_read(error: Exception, name: str) -> str:
    """The message about weights that cannot be read."""
    said = f"{type(error).__name__} {error}".lower()
    if "safetensor" in type(error).__name__.lower():
        return f"the safetensors file of {name!r} is truncated or corrupt ({first_line(error)}): copy it again"
    if "unpickling" in said or "weights_only" in said or "weights only" in said:
        return f"the weights of {name!r} are a pickle that holds more than weights: save them as safetensors"
    return f"the weights of {name!r} cannot be read ({first_line(error)}): check the files, or save the checkpoint again"


def renamed(tensors: Mapping[str, Tensor], rename: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors under other names: `old` is a whole name or the beginning of names, and becomes `new`."""
    names = {name: name for name in tensors}
    for old, new in rename.items():
        meant = [
            first for first, name in names.items() if name == old or name.startswith(old if old.endswith(".") else old + ".")
        ]
        if not meant or not old:
            raise InputError(
                f"rename {old}={new}: no tensor is called so; there are "
                + ", ".join(sorted({".".join(name.split(".")[:2]) for name in tensors})[:8])
            )
        for first in meant:
            names[first] = (new + names[first][len(old) :]).lstrip(".")
    if len(set(names.values())) < len(names):
        twice = next(name for name in names.values() if list(names.values()).count(name) > 1)
        raise InputError(f"rename gives two tensors the name {twice!r}: give each a name of its own")
    return {names[first]: tensor for first, tensor in tensors.items()}


def refuse_misfit(
    source: str,
    prefix: str,
    missing: Collection[str],
    unexpected: Collection[str],
    misshapen: Collection[str] = (),
) -> None:
    """Raise if tensors are missing, have another shape, or belong to the encoder and have no place in it.

    `prefix` begins the names of the encoder's tensors. Other heads may lie beside; a warning names them.
    """
    missing, unexpected = _that_matter(missing), _that_matter(unexpected)
    encoder = [name for name in unexpected if name.startswith(prefix)]
    if misshapen:
        raise ModelError(
            f"{len(misshapen)} tensors of {source!r} do not have the shapes that its config.json states "
            f"({_listed(misshapen)}): use the config that the weights were saved with"
        )
    if missing:
        part = "encoder" if any(name.startswith(prefix) for name in missing) else "language-model head"
        beside = f", while {len(unexpected)} of the file have no place ({_listed(unexpected)})" if unexpected else ""
        raise ModelError(
            f"{len(missing)} tensors of the {part} of {source!r} are missing ({_listed(missing)}){beside}: "
            "use a checkpoint saved with all of them, or rename them (--rename old=new)"
        )
    if encoder:
        raise ModelError(
            f"{len(encoder)} tensors of the encoder of {source!r} have no place in the network that its config.json states "
            f"({_listed(encoder)}): use the config that the weights were saved with"
        )
    if unexpected:
        warnings.warn(
            f"{len(unexpected)} tensors of {source!r} belong to other heads and are left out ({_listed(unexpected)})",
            LeftOut,
            stacklevel=2,
        )


def refuse_non_finite(network: nn.Module, source: str) -> None:
    """Raise if a weight is infinite or NaN, with its tensor's name."""
    for name, tensor in network.named_parameters():
        weights = tensor.detach()
        if not bool(weights.sum().isfinite()) and not bool(weights.isfinite().all()):
            wrong = int((~weights.isfinite()).sum())
            raise ModelError(
                f"{wrong:,} of the {weights.numel():,} numbers of {name!r} of {source!r} are not finite: "
                "use a checkpoint from before its training diverged"
            )


def _ends(name: str) -> list[str]:
    """A tensor's name, and what is left of it without its first part and without its first two."""
    parts = name.split(".")
    return [".".join(parts[first:]) for first in range(min(3, len(parts)))]


def _that_matter(names: Collection[str]) -> list[str]:
    return sorted(name for name in names if not any(part in name for part in UNUSED_BY_LOGITS))


def _listed(names: Collection[str]) -> str:
    """The names, those of one layer or one part of a head as one: `bert.encoder.layer.1.* (16)`."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        layer = re.match(r".*?\.\d+(?=\.)", name)
        groups.setdefault(layer.group() if layer else ".".join(name.split(".")[:2]), []).append(name)
    shown = [members[0] if len(members) == 1 else f"{group}.* ({len(members)})" for group, members in groups.items()]
    more = len(shown) - SHOWN
    return ", ".join(shown[:SHOWN]) + (f" and {more} more" if more > 0 else "")
