"""Models of pairs: a source and its translation as one text, in which the translation begins at a fixed position W.

    [CLS] source [SEP] [PAD] ... [PAD]  target [SEP]          positions 0 ... W - 1, then W, W + 1, ...

No position attends to [PAD]. Texts with equally long targets therefore have their free positions in the same places, whatever
their sources, and go side by side; and position W + i always means "the i-th token of the translation" to the model.

How long a translation is follows from its source alone:

    p(n | s) = softmax(W_2 gelu(W_1 [mean_j h_j ; h_0]) + B[|s|])[n],       n = 1 ... longest

h_j are the encoder's last states of the source by itself, in its room, |s| its number of tokens, and B a table that starts at
the logarithm of how often each length was seen. The head is small and is stored in its own file.

A causal model of pairs reads the source once and then goes token by token, with a cache of keys and values:

    p(y_1 ... y_n, end | s) = prod_t p(y_t | y_<t, s)          position W + t sees the whole source, and the targets up to itself

Its network is our own BERT; training computes the same in one pass over a packed row, this step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from unmask.errors import InputError
from unmask.models.encoder.bert import BertEncoder, BertMaskedLM
from unmask.models.loading import PAIR_FILE, WEIGHTS, is_pair_model, read_own_bert
from unmask.models.source import Source
from unmask.models.text.vocabulary import vocabulary_hash
from unmask.models.weights import read_file, refuse_whole_numbers
from unmask.runs.files import read_object, write_atomically, write_json
from unmask.runs.fingerprint import file_hash

SPECIAL = ("[CLS]", "[SEP]", "[PAD]", "[MASK]")
OWN_TOKENIZER = "put the tokenizer.json back that the model was trained with"
SHORTEST = 4
"""Tokens of either side's room; with fewer there is no word between the special tokens."""
LENGTHS_FILE = "length_head.safetensors"
ROWS = 256


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
        """The pair without padding, as it is trained on: positions say where the target begins, not the tokens before it."""
        return [self.start, *source, self.end, *target, self.end]

    def room(self, source: Sequence[int]) -> tuple[int, ...]:
        """The source in its room."""
        if len(source) > self.longest_source:
            raise InputError(
                f"the source has {len(source)} tokens and the model takes {self.longest_source}: shorten it, "
                "or train a model with a larger --max-length"
            )
        return (self.start, *source, self.end, *[self.pad] * (self.longest_source - len(source)))

    def template(self, source: Sequence[int], length: int) -> tuple[int, ...]:
        """The source, and `length` blanks for its translation."""
        return (*self.room(source), *[self.mask] * length, self.end)

    def target(self, ids: Sequence[int]) -> list[int]:
        """The translation's tokens in a whole text."""
        return list(ids[self.source_length : -1])

    def save(self, folder: Path, objective: str, vocabulary: Mapping[str, int], corrects: bool = False) -> None:
        """Write the layout, whether the model was trained to correct what it sees, and which vocabulary and files are its own."""
        lengths = {"source_length": self.source_length, "max_length": self.max_length}
        kept = {name: file_hash(folder / name) for name in (WEIGHTS, LENGTHS_FILE) if (folder / name).is_file()}
        noted = {**lengths, "objective": objective, "corrects": corrects, "vocabulary": vocabulary_hash(vocabulary)}
        write_json(folder / PAIR_FILE, {**noted, "files": kept})


def is_causal_pair_model(folder: Path) -> bool:
    """Whether a folder holds a causal model of pairs."""
    return is_pair_model(folder) and read_object(folder / PAIR_FILE).get("objective") == "causal"


def corrects(folder: Path) -> bool:
    """Whether the model of a folder was trained to correct tokens that it sees, not only to fill blanks."""
    return bool(read_object(folder / PAIR_FILE).get("corrects"))


def read_layout(folder: Path, vocabulary: Mapping[str, int]) -> tuple[PairLayout, str]:
    """The layout of a folder, and the objective that its model was trained with; `vocabulary` of the tokenizer beside it."""
    if not is_pair_model(folder):
        raise InputError(
            f"model {str(folder)!r} does not translate (it has no {PAIR_FILE}): give a folder of `unmask train --parallel`"
        )
    noted = read_object(folder / PAIR_FILE)
    try:
        source_length, max_length, objective = int(noted["source_length"]), int(noted["max_length"]), str(noted["objective"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{str(folder / PAIR_FILE)!r} is not understood: train the model again") from None
    missing = next((token for token in SPECIAL if token not in vocabulary), None)
    if missing is not None:
        raise InputError(f"the tokenizer in {str(folder)!r} lacks {missing!r}: {OWN_TOKENIZER}")
    if noted.get("vocabulary", vocabulary_hash(vocabulary)) != vocabulary_hash(vocabulary):
        raise InputError(f"the tokenizer in {str(folder)!r} has other tokens than the model was trained with: {OWN_TOKENIZER}")
    _refuse_other_files(folder, noted.get("files"))
    return PairLayout(source_length, max_length, *(vocabulary[token] for token in SPECIAL)), objective


def _refuse_other_files(folder: Path, noted: object) -> None:
    """Refuse weights that were not written together: another model's head for the length fits any model of this shape."""
    known = noted if isinstance(noted, dict) else {}
    for name in (WEIGHTS, LENGTHS_FILE):
        if name in known and (folder / name).is_file() and file_hash(folder / name) != known[name]:
            raise InputError(
                f"{name} in {str(folder)!r} is not the file that the model was saved with: put it back, or, if you changed it "
                f'yourself, take "{name}" out of {PAIR_FILE}'
            )


def refuse_other_tokens(folder: Path, vocabulary: Mapping[str, int], outputs: int) -> None:
    """Refuse a tokenizer of another size, in folders of an earlier unmask, which do not note whose it is."""
    if "vocabulary" not in read_object(folder / PAIR_FILE) and sorted(vocabulary.values()) != list(range(outputs)):
        raise InputError(
            f"the tokenizer in {str(folder)!r} has {len(vocabulary):,} tokens and the model {outputs:,}: {OWN_TOKENIZER}"
        )


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
        write_atomically(folder / LENGTHS_FILE, save(stored, {"format": "pt"}))

    @classmethod
    def load(cls, folder: Path) -> LengthHead:
        """The head of a folder."""
        if not (folder / LENGTHS_FILE).is_file():
            raise InputError(
                f"model {str(folder)!r} has no {LENGTHS_FILE}, which predicts how long translations are: train it again"
            )
        stored = read_file(folder / LENGTHS_FILE)
        try:
            (rows, longest), width = stored["by_source"].shape, stored["hidden.weight"].shape[0]
            head = cls(width, rows - 1, longest)
            refuse_whole_numbers({name: t.dtype for name, t in stored.items()}, head.state_dict(), str(folder / LENGTHS_FILE))
            head.load_state_dict(stored)
        except (KeyError, ValueError, RuntimeError):
            raise InputError(f"{str(folder / LENGTHS_FILE)!r} is not understood: train the model again") from None
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


class Read:
    """The cache of n pairs: keys and values of each layer, and which places may be attended to."""

    def __init__(self, keys: list[Tensor], values: list[Tensor], seen: Bool[Tensor, "n L"]) -> None:
        self.keys, self.values, self.seen = keys, values, seen

    def take(self, rows: Int[Tensor, " m"]) -> Read:
        """The cache of some rows, which may be named several times."""
        return Read([k[rows] for k in self.keys], [v[rows] for v in self.values], self.seen[rows])


class CausalPairs:
    """Next-token log-probabilities of translations; special tokens except the end token are excluded."""

    def __init__(self, network: BertMaskedLM, layout: PairLayout, special: Int[Tensor, " s"]) -> None:
        self.network, self.layout = network.eval(), layout
        self.device = next(network.parameters()).device
        ruled_out = torch.zeros(network.config.vocab_size, dtype=torch.bool)
        ruled_out[special] = True
        ruled_out[layout.end] = False
        self.ruled_out = ruled_out.to(self.device)

    @torch.no_grad()
    def read(self, rooms: Int[Tensor, "n W"]) -> tuple[Read, Float[Tensor, "n V"]]:
        """Read sources in their rooms; log p(y_1 | s)."""
        bert = self.network.bert
        states, there = bert.embeddings(rooms), rooms != self.layout.pad
        keys, values = [], []
        for layer in bert.layers:
            query, key, value = layer.project(states)
            states = layer.after_attention(states, layer.attend(query, key, value, there))
            keys.append(key)
            values.append(value)
        last = there.sum(1) - 1
        first = self._log_probs(states[torch.arange(len(rooms), device=self.device), last])
        return Read(keys, values, there), first

    @torch.no_grad()
    def step(self, read: Read, tokens: Int[Tensor, " n"], place: int) -> Float[Tensor, "n V"]:
        """Read one more token of each translation, its `place`-th from 0; log-probabilities of the one after it."""
        bert = self.network.bert
        states = bert.embeddings(tokens.unsqueeze(1), self.layout.source_length + place)
        read.seen = torch.cat([read.seen, read.seen.new_ones(len(tokens), 1)], 1)
        for number, layer in enumerate(bert.layers):
            query, key, value = layer.project(states)
            read.keys[number] = torch.cat([read.keys[number], key], 1)
            read.values[number] = torch.cat([read.values[number], value], 1)
            states = layer.after_attention(states, layer.attend(query, read.keys[number], read.values[number], read.seen))
        return self._log_probs(states[:, 0])

    def _log_probs(self, states: Float[Tensor, "n d"]) -> Float[Tensor, "n V"]:
        return self.network.head(states).float().log_softmax(-1).masked_fill(self.ruled_out, -torch.inf)


def load_causal_pairs(folder: Path, tokenizer: Tokenizer, device: torch.device, dtype: torch.dtype) -> CausalPairs:
    """The causal model of pairs of a folder that `unmask train --parallel SOURCE TARGET --objective causal` wrote."""
    layout, objective = read_layout(folder, tokenizer.get_vocab())
    if objective != "causal":
        raise InputError(f"model {str(folder)!r} is a masked model: give one that was trained with --objective causal")
    network = read_own_bert(Source(str(folder)), dtype, decoder=True)
    if network is None:
        raise InputError(f"the weights in {str(folder)!r} are not those of its config.json: train the model again")
    refuse_other_tokens(folder, tokenizer.get_vocab(), network.config.vocab_size)
    special = [i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special]
    return CausalPairs(network.to(device), layout, torch.tensor(special))
