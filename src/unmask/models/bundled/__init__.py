"""The small English model that ships with the package."""

from __future__ import annotations

from pathlib import Path


def english_model_path() -> Path:
    """The folder of the bundled English checkpoint (config, weights, tokenizer)."""
    return Path(__file__).parent / "english"
