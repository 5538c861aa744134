"""How long a translation is, from its source alone:

    p(n | s) = softmax(W_2 gelu(W_1 [mean_j h_j ; h_0]) + B[|s|])[n],       n = 1 ... longest

h_j are the encoder's last states of the source by itself, in its room (see `pair_layout`), |s| its number of tokens, and B a
table that starts at the logarithm of how often each length was seen. The head is small and lies in a file of its own.
"""

from __future__ import annotations

from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.errors import InputError
from unmask.models.encoder.bert import BertEncoder
from unmask.models.weights import read_file, refuse_whole_numbers
from unmask.runs.files import write_atomically

FILE = "length_head.safetensors"
ROWS = 256


class LengthHead(nn.Module):
    """Log-probabilities of the lengths 1 ... `longest` from pooled states (2 `width` numbers) and the source's own length."""

    def __init__(self, width: int, longest_source: int, longest: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, longest)
        self.by_source = nn.Parameter(torch.zeros(longest_source + 1, longest))

    def forward(self, pooled: Float[Tensor, "n D"], tokens: Int[Tensor, " n"]) -> Float[Tensor, "n longest"]:
        """log p(n | s)."""
        return (self.out(functional.gelu(self.hidden(pooled))) + self.by_source[tokens]).log_softmax(-1)

    def save(self, folder: Path) -> None:
        """Write the head beside the weights."""
        from safetensors.torch import save

        stored = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        write_atomically(folder / FILE, save(stored, {"format": "pt"}))

    @classmethod
    def load(cls, folder: Path) -> LengthHead:
        """The head of a folder."""
        if not (folder / FILE).is_file():
            raise InputError(f"model {str(folder)!r} has no {FILE}, which tells how long translations are: train it again")
        stored = read_file(folder / FILE)
        try:
            (rows, longest), width = stored["by_source"].shape, stored["hidden.weight"].shape[0]
            head = cls(width, rows - 1, longest)
            refuse_whole_numbers({name: t.dtype for name, t in stored.items()}, head.state_dict(), str(folder / FILE))
            head.load_state_dict(stored)
        except (KeyError, ValueError, RuntimeError):
            raise InputError(f"{str(folder / FILE)!r} is not understood: train the model again") from None
        return head.eval()


@torch.no_grad()
def pooled_states(encoder: BertEncoder, rooms: Int[Tensor, "n W"], pad: int) -> Float[Tensor, "n D"]:
    """[mean over the source's tokens ; state of the start token] of each source, which the encoder sees alone."""
    parts = []
    for some in rooms.split(ROWS):
        states = encoder(some).float()
        there = (some != pad).unsqueeze(-1)
        parts.append(torch.cat([(states * there).sum(1) / there.sum(1), states[:, 0]], 1))
    return torch.cat(parts)
