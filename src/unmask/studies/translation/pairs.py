"""Models of pairs: a source and its translation as one text, in which the translation begins at
a fixed position W.

    [CLS] source [SEP] [PAD] ... [PAD]  target [SEP]
            positions 0 ... W - 1, then W, W + 1, ...

No position attends to [PAD]. Texts with equally long targets therefore have their free
positions in the same places, whatever their sources, and go side by side; and position W + i
always means "the i-th token of the translation" to the model.

How long a translation is follows from its source alone:

    p(n | s) = softmax(W_2 gelu(W_1 [mean_j h_j ; h_0]) + B[|s|])[n],       n = 1 ... longest

h_j are the encoder's last states of the source by itself, in its room, |s| its number of
tokens, and B a table that starts at the logarithm of how often each length was seen. The head
is small and is stored in its own file. It is fitted by the loss -log p(n | s) of the trained
targets' lengths n, on the states of the finished encoder, which stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.common.errors import InputError
from unmask.common.files import read_object, write_atomically, write_json
from unmask.models.checkpoint import PAIR_FILE, is_pair_model
from unmask.models.checkpoint_files import WEIGHTS, read_tensors
from unmask.models.encoder.bert import BertEncoder, BertMaskedLM
from unmask.models.text.vocabulary import vocabulary_hash
from unmask.runs.fingerprint import file_hash

SPECIAL = ("[CLS]", "[SEP]", "[PAD]", "[MASK]")
SHORTEST = 4
"""Tokens of either side's room; with fewer there is no word between the special tokens."""
LENGTHS_FILE = "length_head.safetensors"
ROWS = 256
EPOCHS, LEAST_STEPS, BATCH, RATE, DROPOUT = 12, 400, 256, 1e-3, 0.2
"""Of the fit of a length head."""


@dataclass(frozen=True)
class PairLayout:
    """Where source and target are, and the ids of the special tokens.

    source_length   W: tokens of the source's room, its start and end tokens included
    max_length      tokens of the whole text
    """

    source_length: int
    max_length: int
    start: int
    end: int
    pad: int
    mask: int

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source, without special ones."""
        return self.source_length - 2

    @property
    def longest_target(self) -> int:
        """Tokens of the longest translation, without its end token."""
        return self.max_length - self.source_length - 1

    def segment(self, source: Sequence[int], target: Sequence[int]) -> list[int]:
        """The pair without padding, as it is trained on: positions say where the target begins,
        not the tokens before it.
        """
        return [self.start, *source, self.end, *target, self.end]

    def room(self, source: Sequence[int]) -> tuple[int, ...]:
        """The source, of at most `longest_source` tokens, in its room."""
        return (self.start, *source, self.end, *[self.pad] * (self.longest_source - len(source)))

    def template(self, source: Sequence[int], length: int) -> tuple[int, ...]:
        """The source, and `length` blanks for its translation."""
        return (*self.room(source), *[self.mask] * length, self.end)

    def save(
        self, folder: Path, objective: str, vocabulary: Mapping[str, int], corrects: bool = False
    ) -> None:
        """Write the layout, whether the model was trained to correct what it sees, and which
        vocabulary and files are its own.
        """
        lengths = {"source_length": self.source_length, "max_length": self.max_length}
        about = {
            "objective": objective,
            "corrects": corrects,
            "vocabulary": vocabulary_hash(vocabulary),
        }
        files = {
            name: file_hash(folder / name)
            for name in (WEIGHTS, LENGTHS_FILE)
            if (folder / name).is_file()
        }
        write_json(folder / PAIR_FILE, {**lengths, **about, "files": files})


def is_causal_pair_model(folder: Path) -> bool:
    """Whether a folder holds a causal model of pairs."""
    return is_pair_model(folder) and read_object(folder / PAIR_FILE).get("objective") == "causal"


def read_layout(folder: Path, vocabulary: Mapping[str, int]) -> tuple[PairLayout, str, bool]:
    """The layout of a folder, its model's objective, and whether that was trained to correct
    tokens that it sees.

    `vocabulary`: of the tokenizer beside it.
    """
    if not is_pair_model(folder):
        raise InputError(
            f"model {str(folder)!r} does not translate (it has no {PAIR_FILE}): give a folder of"
            " `unmask train --parallel`"
        )
    about = read_object(folder / PAIR_FILE)
    try:
        source_length, max_length, objective = (
            int(about["source_length"]),
            int(about["max_length"]),
            str(about["objective"]),
        )
        trained_with, corrects = about["vocabulary"], bool(about["corrects"])
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{str(folder / PAIR_FILE)!r} is not understood: train the model again"
        ) from None
    if trained_with != vocabulary_hash(vocabulary):
        use = "put the tokenizer.json back that the model was trained with"
        raise InputError(
            f"the tokenizer in {str(folder)!r} has other tokens than the model was trained with:"
            f" {use}"
        )
    for name, saved in (about["files"] if isinstance(about.get("files"), dict) else {}).items():
        # Another model's head for the length fits any model of this shape.
        if (folder / name).is_file() and file_hash(folder / name) != saved:
            raise InputError(
                f"{name} in {str(folder)!r} is not the file that the model was saved with: put it"
                " back, or, if you changed it "
                f'yourself, take "{name}" out of {PAIR_FILE}'
            )
    return (
        PairLayout(source_length, max_length, *(vocabulary[token] for token in SPECIAL)),
        objective,
        corrects,
    )


class LengthHead(nn.Module):
    """Log-probabilities of the lengths 1 ... `longest` from pooled states (2 `width` numbers)
    and the source's own length.
    """

    def __init__(self, width: int, longest_source: int, longest: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, longest)
        self.by_source = nn.Parameter(torch.zeros(longest_source + 1, longest))

    def forward(
        self, pooled: Float[Tensor, "n D"], tokens: Int[Tensor, " n"]
    ) -> Float[Tensor, "n longest"]:
        """log p(n | s)."""
        return (
            self.out(functional.gelu(self.hidden(pooled))) + self.by_source[tokens]
        ).log_softmax(-1)

    def save(self, folder: Path) -> None:
        """Write the head beside the weights."""
        from safetensors.torch import save

        stored = {
            name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()
        }
        write_atomically(folder / LENGTHS_FILE, save(stored, {"format": "pt"}))

    @classmethod
    def load(cls, folder: Path) -> LengthHead:
        """The head of a folder."""
        if not (folder / LENGTHS_FILE).is_file():
            raise InputError(
                f"model {str(folder)!r} has no {LENGTHS_FILE}, which predicts how long translations"
                " are: train it again"
            )
        stored = read_tensors(folder / LENGTHS_FILE)
        try:
            (rows, longest), width = stored["by_source"].shape, stored["hidden.weight"].shape[0]
            head = cls(width, rows - 1, longest)
            head.load_state_dict(stored)
        except (KeyError, ValueError, RuntimeError):
            raise InputError(
                f"{str(folder / LENGTHS_FILE)!r} is not understood: train the model again"
            ) from None
        return head.eval()


@torch.no_grad()
def pooled_states(
    encoder: BertEncoder, layout: PairLayout, sources: Sequence[Sequence[int]]
) -> tuple[Float[Tensor, "n D"], Int[Tensor, " n"]]:
    """[mean over the source's tokens ; state of the start token] of each source, which the
    encoder sees alone; its length.
    """
    device, parts = next(encoder.parameters()).device, []
    for some in torch.tensor([layout.room(source) for source in sources], device=device).split(
        ROWS
    ):
        states = encoder(some).float()
        there = (some != layout.pad).unsqueeze(-1)
        parts.append(torch.cat([(states * there).sum(1) / there.sum(1), states[:, 0]], 1))
    return torch.cat(parts), torch.tensor([len(source) for source in sources], device=device)


def fit_length_head(
    network: BertMaskedLM,
    layout: PairLayout,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    seed: int,
) -> LengthHead:
    """The head for this network, from tokens of sources and targets; equal arguments give equal
    heads on one kind of device.
    """
    device = next(network.parameters()).device
    network.bert.unseen = layout.pad
    pooled, tokens = pooled_states(network.eval().bert, layout, sources)
    lengths = torch.tensor([len(target) for target in targets], device=device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        head = LengthHead(network.config.hidden_size, layout.longest_source, layout.longest_target)
        with torch.no_grad():
            head.by_source.copy_(_smoothed_log_counts(tokens.cpu(), lengths.cpu(), head.by_source))
        _fit(head.to(device), pooled, tokens, lengths)
    return head.eval()


def _smoothed_log_counts(
    tokens: Int[Tensor, " n"], lengths: Int[Tensor, " n"], like: Tensor
) -> Float[Tensor, "S longest"]:
    """How often each length was seen with each length of source, or with one near it."""
    counts = torch.zeros_like(like).index_put(
        (tokens, lengths - 1), torch.ones(len(tokens)), accumulate=True
    )
    kernel = torch.tensor([1.0, 2.0, 4.0, 2.0, 1.0])
    near = functional.conv2d(counts[None, None], (kernel[:, None] * kernel)[None, None], padding=2)[
        0, 0
    ]
    return (near + 0.1).log()


def _fit(
    head: LengthHead,
    pooled: Float[Tensor, "n D"],
    tokens: Int[Tensor, " n"],
    lengths: Int[Tensor, " n"],
) -> None:
    each = -(-len(pooled) // BATCH)
    epochs = max(EPOCHS, -(-LEAST_STEPS // each))
    optimiser = torch.optim.AdamW(head.parameters(), RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, epochs * each)
    for _ in range(epochs):
        for some in torch.randperm(len(pooled), device=pooled.device).split(BATCH):
            states = functional.dropout(pooled[some], DROPOUT)
            loss = functional.nll_loss(head(states, tokens[some]), lengths[some] - 1)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
