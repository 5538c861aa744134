"""Hashes of contents (weights, a tokenizer, a text, a file), and where numbers come from.

SHA-256, cut to 16 hexadecimal digits. Tensors are hashed side by side, since hashing does not
hold Python's lock.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from unmask import __version__
from unmask.common.files import reading

DIGITS = 16
"""Hexadecimal digits of a hash that are kept: 64 bits."""
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow", "ray")


def fingerprint(tensors: Mapping[str, Any], *further: str | bytes) -> str:
    """Of named tensors (PyTorch's or NumPy's, on any device) and of further contents such as a
    tokenizer's JSON.
    """
    names = sorted(tensors)
    with ThreadPoolExecutor() as pool:
        digests = list(pool.map(_tensor_digest, (tensors[name] for name in names)))
    whole = hashlib.sha256()
    for name, digest in zip(names, digests, strict=True):
        encoded = name.encode()
        length = len(encoded).to_bytes(8, "little")
        whole.update(length + encoded + digest)
    for content in further:
        whole.update(hashlib.sha256(_bytes(content)).digest())
    return whole.hexdigest()[:DIGITS]


def content_hash(content: str | bytes) -> str:
    """Of a text or of bytes."""
    return hashlib.sha256(_bytes(content)).hexdigest()[:DIGITS]


def file_hash(path: Path) -> str:
    """Of a file's bytes, as stored."""
    with reading(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:DIGITS]


def _tensor_digest(tensor: Any) -> bytes:
    """Of the number format, the shape and the numbers in C order, which are not copied where
    they already lie so.
    """
    import numpy as np

    number_format = str(tensor.dtype).removeprefix("torch.")
    digest = hashlib.sha256(f"{number_format} {tuple(tensor.shape)}".encode())
    if hasattr(tensor, "detach"):
        import torch

        flat = tensor.detach().cpu().contiguous().flatten()
        tensor = flat.view(torch.uint8).numpy()  # NumPy has no bfloat16
    flat = np.ascontiguousarray(tensor).reshape(-1)
    digest.update(flat.view(np.uint8).data)
    return digest.digest()


def _bytes(content: str | bytes) -> bytes:
    if isinstance(content, str):
        return content.encode("utf-8", "surrogatepass")
    return content


def provenance() -> dict[str, Any]:
    """{date, command, versions, processor, cores, gpu}, for settings files and reports.

    Nothing is imported for it: versions are those of the installed packages, and a GPU is
    looked for only if torch is loaded.
    """
    versions = {"unmask": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    gpu = None
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        gpu = str(torch.cuda.get_device_name())
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
        "versions": versions,
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "gpu": gpu,
    }
