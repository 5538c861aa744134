"""What models and translators that are not loaded yet have in common.

Nothing here imports torch.
"""

from __future__ import annotations

import os
from typing import TypeVar

from unmask.common.border.calls import changed

Spec = TypeVar("Spec", bound="LoadingSpec")


class LoadingSpec:
    """Base of `ModelSpec` and `TranslatorSpec`, which are frozen dataclasses with these fields and
    a method `load`.

    name     a folder, or a name of the hub; None is the bundled model
    device   the device, or a list of devices with commas between them
    dtype    the number format
    """

    name: str | os.PathLike[str] | None
    device: str
    dtype: str

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices, each by itself: "cuda:0,1" is ("cuda:0", "cuda:1")."""
        first, *others = [part.strip() for part in self.device.split(",")]
        devices = [first]
        for part in others:
            devices.append(f"cuda:{part}" if part.isdigit() else part)
        return tuple(devices)

    def on(self: Spec, device: str) -> Spec:
        """Put the same model on another device.

        Returns:
            A spec for any process: with the absolute path of a folder, since other processes may
            have other working folders.
        """
        name = self.name
        if name is not None:
            folder = os.path.expanduser(name)
            if os.path.isdir(folder):
                name = os.path.realpath(folder)
        return changed(self, name=name, device=device)
