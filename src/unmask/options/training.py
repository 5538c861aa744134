"""Options of `train`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from unmask.options.kinds import Choice, File, Files, Flag, Numbers, Real, Renames, Text, TwoFiles, Weights, Whole
from unmask.options.option import OUTPUT, Options, Reads, option
from unmask.options.shared import LARGEST_SEED, Printed

Objective = Literal["masked", "causal"]
LossName = Literal["factorised", "block"]
OptimiserName = Literal["muon", "adamw"]
Precision = Literal["auto", "float32", "bfloat16"]
MANY = 10**9
"""More steps, rows or tokens than anyone waits for."""
MASKED_ONLY = ("masking", "replacement", "loss", "compatibility", "compatibility_rows", "mask_source", "refinement")
PAIRS_ONLY = ("mask_source", "refinement")
PLAIN_MASKING, PAIRS_MASKING = "uniform:0.05-0.45", "uniform:0-1"
"""Where none is given. In translations every number of masked tokens is equally likely, none and all included."""
TEXTS, PAIRS = "a CORPUS of texts", "--parallel SOURCE TARGET"
SHAPE, CUT, OBJECTIVE, OPTIMISATION = "Shape", "Texts", "Objective", "Optimisation"
VALIDATION, RUN = "Validation", "Run"


def _by_size(default: float, kind: Whole | Real, help: str, group: str = SHAPE) -> Any:
    """A row whose default goes with the size of the model."""
    return option(default, kind, help, group=group, left_out=None, otherwise="by --size")


@dataclass(frozen=True)
class Training(Options):
    """What decides the weights of a run; see `unmask.training.settings`."""

    reads: ClassVar[tuple[Reads, ...]] = (Reads("objective", {"masked": MASKED_ONLY, "causal": ()}),)

    layers: int = _by_size(6, Whole(1, 1024), "Encoder layers.")
    width: int = _by_size(256, Whole(1, 1 << 16), "Hidden size.")
    heads: int = _by_size(4, Whole(1, 1 << 10), "Attention heads.")
    vocab: int = _by_size(8192, Whole(64, 1 << 24), "Tokens of the vocabulary, where a tokenizer is trained.")
    max_length: int = option(128, Whole(8, 1 << 16), "Longest text in tokens, start and end tokens included.", group=CUT)
    segment_lengths: tuple[int, ...] = option(
        (24, 64, 128),
        Numbers(int),
        "Lengths that lines are cut to, one drawn for each line.",
        group=CUT,
        left_out=None,
        otherwise="24, 64 and --max-length",
    )
    buckets: tuple[int, ...] = option(
        (128,),
        Numbers(int),
        "Row lengths that segments are packed into; the last is --max-length.",
        group=CUT,
        left_out=None,
        otherwise="--max-length",
    )
    objective: Objective = option(
        "masked", Choice(get_args(Objective)), "masked, or causal: a model of the next token, of the same shape.", group=OBJECTIVE
    )
    masking: str = option(
        PLAIN_MASKING,
        Text(),
        "fixed:R, uniform:A-B, k:N, span:R, words:R, or a mixture W*..+W*...",
        group=OBJECTIVE,
        otherwise=f"{PLAIN_MASKING}, of translations {PAIRS_MASKING}",
    )
    replacement: str = option(
        "1,0,0", Text(), "Shares of masked tokens shown as mask, random token, themselves.", group=OBJECTIVE
    )
    loss: LossName = option(
        "factorised", Choice(get_args(LossName)), "factorised, or block (chain rule inside the masked block).", group=OBJECTIVE
    )
    compatibility: float = option(0.0, Real(0, 1e6), "Weight of the compatibility regulariser.", group=OBJECTIVE)
    compatibility_rows: int = option(0, Whole(0, MANY), "Rows of each batch it looks at; 0 is an eighth.", group=OBJECTIVE)
    optimiser: OptimiserName = option(
        "muon",
        Choice(get_args(OptimiserName)),
        "muon (orthogonalised steps for the layers' matrices), or adamw for all.",
        group=OPTIMISATION,
    )
    lr: float = _by_size(4e-3, Real(0, 10, above=True), "Peak learning rate.", OPTIMISATION)
    warmup: int = option(500, Whole(0, MANY), "Steps of rising learning rate; at most a tenth of all steps.", group=OPTIMISATION)
    steps: int = option(0, Whole(0, MANY), "Optimisation steps; 0 takes them from --epochs.", group=OPTIMISATION)
    batch_tokens: int = _by_size(65536, Whole(8, MANY), "Tokens of each step.", OPTIMISATION)
    weight_decay: float = option(0.01, Real(0, 1), "Weight decay of matrices.", group=OPTIMISATION)
    beta2: float = option(0.98, Real(0, 0.999999, above=True), "AdamW's second beta.", group=OPTIMISATION)
    clip: float = option(1.0, Real(0, 1e6, above=True), "Largest norm of the gradient.", group=OPTIMISATION)
    precision: Precision = option(
        "auto",
        Choice(get_args(Precision)),
        "Of matrix products: float32, bfloat16, or auto (bfloat16 on a GPU).",
        group=OPTIMISATION,
    )
    seed: int = option(0, Whole(0, LARGEST_SEED), "Seed of weights, order and masks.")
    dropout: float = option(0.0, Real(0, 0.9), "Share of each layer's output that training drops.", group=OPTIMISATION)
    label_smoothing: float = option(0.0, Real(0, 0.9), "Share of each answer spread over the vocabulary.", group=OPTIMISATION)
    mask_source: float = option(0.0, Real(0, 0.9), "Rate at which source tokens are masked, too.", group=OBJECTIVE)
    refinement: float = option(0.0, Real(0, 1e3), "Weight of learning to correct one's own one-step output.", group=OBJECTIVE)


@dataclass(frozen=True)
class TrainOptions(Printed, Training):
    """Options of `train`."""

    more: ClassVar[str] = (
        "Writes a folder that `unmask fill --model OUT` and Hugging Face's AutoModelForMaskedLM load (a causal one: "
        "`unmask diagnose --judge OUT` and AutoModelForCausalLM), with a model card. "
        "Ctrl-C leaves a checkpoint; --resume goes on from there with the same numbers."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "unmask train corpus.txt --out model",
        "unmask train --parallel sources.txt targets.txt --out translator --size small --epochs 10",
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        *Training.reads,
        Reads("", {TEXTS: ("weight", "valid", "segment_lengths"), PAIRS: ("distil", *PAIRS_ONLY)}),
    )
    corpus: Any = option(
        None,
        Files(),
        "Text files, one text per line: .txt, .txt.xz, .txt.gz or .jsonl.",
        argument=True,
        metavar="CORPUS...",
        python="Or a list of texts.",
    )
    parallel: Any = option(
        None,
        TwoFiles(),
        "Instead of CORPUS: a file of sources and one of their translations, line by line.",
        python="Or two lists of texts.",
    )
    distil: Any = option(None, File(), "Train on the translations of the causal model in this folder.")
    weight: Any = option(None, Weights(), "How often an epoch sees each CORPUS file; one per file, in order.")
    field: str = option("text", Text(), "Field of a .jsonl line that holds the text.")
    size: str = option(
        "auto",
        Choice(("auto", "tiny", "small", "base")),
        "Default shape: tiny, small, base, or auto (tiny on a CPU, small on a GPU).",
        group=SHAPE,
    )
    tokenizer: Any = option(None, File(), "A tokenizer.json, or a model folder, to use instead of training one.", group=SHAPE)
    init: Any = option(
        None, File(), "A model folder to start from; its shape and tokenizer are taken with its weights.", group=SHAPE
    )
    rename: Mapping[str, str] | None = option(
        None, Renames(), "A tensor of --init that the model has under another name.", group=SHAPE
    )
    epochs: float = option(3.0, Real(0, 1e6, above=True), "Passes over the corpus, where --steps is 0.", group=OPTIMISATION)
    valid: Any = option(None, File(), "Held-out text.", group=VALIDATION, otherwise="a share of the corpus")
    valid_share: float = option(
        0.02, Real(0, 1), "Share of the corpus' lines held out, where there is no --valid.", group=VALIDATION
    )
    valid_max_tokens: int | None = option(
        None, Whole(3, 1 << 20), "Validate on segments of at most this many tokens.", group=VALIDATION
    )
    valid_every: int = option(0, Whole(0, MANY), "Steps between validations; 0 is a tenth of the run.", group=VALIDATION)
    checkpoint_every: int = option(0, Whole(0, MANY), "Steps between checkpoints; 0 is a twentieth of the run.", group=RUN)
    max_minutes: float | None = option(None, Real(0, 1e7), "Pause after this time, with a checkpoint for --resume.", group=RUN)
    resume: bool = option(False, Flag(), "Go on with the run in --out.", group=RUN)
    keep_checkpoints: bool = option(False, Flag(), "Keep the last checkpoints of a finished run.", group=RUN)
    device: str = option("auto", Text(), "cpu, cuda or auto.", group=RUN)
    compile: bool | None = option(None, Flag(), "Compile the model.", group=RUN, otherwise="on a GPU")
    cache: Any = option(None, File(), "Folder for tokenised corpora.", group=RUN, otherwise="~/.cache/unmask")
    out: Any = option(None, File(), "Folder for the model; must not exist, unless --resume.", group=OUTPUT, required="both")
    half: bool = option(False, Flag(), "Write the weights in float16.", group=OUTPUT)
    licence: str = option("unknown", Text(), "Licence of the data, for the model card.", group=OUTPUT)

    @classmethod
    def chosen(cls, what: str, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The objective, or what is trained on."""
        return super().chosen(what, given) if what else (PAIRS if given.get("parallel") is not None else TEXTS,)
