"""Model folders that cannot serve, each a good one with one change; tests/models has every
refusal of a folder.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from support.small_models import reconfigure


def _instead(name, content):
    def change(folder):
        (folder / name).write_bytes(content)

    return change


def _truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:2000])


def _not_finite(folder):
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    next(iter(tensors.values())).flatten()[0] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


MODELS: dict[str, Callable[[Path], None]] = {
    "model-with-deep-config": _instead(
        "config.json", b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    ),
    "model-with-code": partial(
        reconfigure, auto_map={"AutoModelForMaskedLM": "modeling.Model"}, model_type="own"
    ),
    "model-with-fewer-layers": partial(reconfigure, num_hidden_layers=1),
    "model-with-more-layers": partial(reconfigure, num_hidden_layers=5),
    "model-with-odd-heads": partial(reconfigure, num_attention_heads=3),
    "model-truncated": _truncated,
    "model-not-finite": _not_finite,
    "model-with-text-tokenizer": _instead("tokenizer.json", b"hello"),
}
