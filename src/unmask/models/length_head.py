"""How long a translation is, from its source alone.

    p(n | s) = softmax(W_2 gelu(W_1 [mean_j h_j ; h_0]) + B[|s|])[n],       n = 1 ... longest

h_j are the encoder's last states of the source by itself, in its room
(`unmask.models.pair_layout`), |s| its number of tokens, and B a table over these. The head is small
and is stored in its own file.
`unmask.studies.training.length_fit` fits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.common.errors import InputError
from unmask.common.files import write_atomically
from unmask.models.checkpoint_files import read_tensors
from unmask.models.encoder.bert import BertEncoder
from unmask.models.pair_layout import LENGTHS_FILE, PairLayout

ROWS = 256  # Sources that the encoder reads at once


class LengthHead(nn.Module):
    """Log-probabilities of the lengths 1 ... `longest` from pooled states (2 `width` numbers) and
    the source's own length.
    """

    def __init__(self, width: int, longest_source: int, longest: int) -> None:
        super().__init__()
        self.hidden: nn.Linear = nn.Linear(2 * width, width)
        self.out: nn.Linear = nn.Linear(width, longest)
        self.by_source: nn.Parameter = nn.Parameter(torch.zeros(longest_source + 1, longest))

    def forward(
        self, pooled: Float[Tensor, "n D"], tokens: Int[Tensor, " n"]
    ) -> Float[Tensor, "n longest"]:
        """log p(n | s); `tokens`: of each source."""
        of_states = self.out(functional.gelu(self.hidden(pooled)))
        return (of_states + self.by_source[tokens]).log_softmax(-1)

    def save(self, folder: Path) -> None:
        """Write the head beside the weights."""
        from safetensors.torch import save

        tensors = {}
        for name, tensor in self.state_dict().items():
            tensors[name] = tensor.detach().cpu().contiguous()
        write_atomically(folder / LENGTHS_FILE, save(tensors, {"format": "pt"}))

    @classmethod
    def load(cls, folder: Path) -> LengthHead:
        """The head of a folder."""
        path = folder / LENGTHS_FILE
        if not path.is_file():
            raise InputError(
                f"model {str(folder)!r} has no {LENGTHS_FILE}, which predicts how long translations"
                " are: train it again"
            )
        tensors = read_tensors(path)
        try:
            lengths_of_sources, longest = tensors["by_source"].shape
            width = tensors["hidden.weight"].shape[0]
            head = cls(width=width, longest_source=lengths_of_sources - 1, longest=longest)
            head.load_state_dict(tensors)
        except (KeyError, ValueError, RuntimeError):
            raise InputError(f"{str(path)!r} is not understood: train the model again") from None
        return head.eval()


@torch.no_grad()
def pooled_states(
    encoder: BertEncoder, layout: PairLayout, sources: Sequence[Sequence[int]]
) -> tuple[Float[Tensor, "n D"], Int[Tensor, " n"]]:
    """[mean over the source's tokens ; state of the start token] of each source, which the encoder
    sees alone; its length.
    """
    device = next(encoder.parameters()).device
    rooms = torch.tensor([layout.room(source) for source in sources], device=device)
    parts = []
    for some_rooms in rooms.split(ROWS):
        states = encoder(some_rooms).float()
        not_padding = (some_rooms != layout.pad).unsqueeze(-1)
        mean = (states * not_padding).sum(1) / not_padding.sum(1)
        parts.append(torch.cat([mean, states[:, 0]], 1))
    tokens = torch.tensor([len(source) for source in sources], device=device)
    return torch.cat(parts), tokens
