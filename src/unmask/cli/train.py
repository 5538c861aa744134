"""The command `unmask train`: parses options, calls `unmask.train`, prints where the model is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import options
from unmask.cli.options import Json, Rename, read_renames
from unmask.runs.progress import Progress


def train(
    out: Annotated[
        Path, typer.Option(parser=options.path, metavar="PATH", help="Folder for the model; must not exist, unless --resume.")
    ],
    corpus: Annotated[
        list[Path] | None,
        typer.Argument(
            parser=options.path, metavar="CORPUS", help="Text files, one text per line: .txt, .txt.xz, .txt.gz or .jsonl."
        ),
    ] = None,
    parallel: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            parser=options.one_of_two_files,
            metavar="SOURCE TARGET",
            help="Instead of CORPUS: a file of sources and one of their translations, line by line.",
        ),
    ] = None,
    distil: Annotated[
        Path | None,
        typer.Option(
            parser=options.path,
            metavar="PATH",
            help="With --parallel: train on the translations of the causal model in this folder.",
        ),
    ] = None,
    weight: Annotated[
        list[float] | None, typer.Option(help="How often an epoch sees each CORPUS file; one per file, in order.")
    ] = None,
    size: Annotated[
        str, typer.Option(help="Default shape: tiny, small, base, or auto (tiny on a CPU, small on a GPU).")
    ] = "auto",
    layers: Annotated[int | None, typer.Option(help="Encoder layers.")] = None,
    width: Annotated[int | None, typer.Option(help="Hidden size.")] = None,
    heads: Annotated[int | None, typer.Option(help="Attention heads.")] = None,
    vocab: Annotated[int | None, typer.Option(help="Tokens of the vocabulary, where a tokenizer is trained.")] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            parser=options.path, metavar="PATH", help="A tokenizer.json, or a model folder, to use instead of training one."
        ),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(
            parser=options.path,
            metavar="PATH",
            help="A model folder to start from; its shape and tokenizer are taken with its weights.",
        ),
    ] = None,
    rename: Rename = None,
    field: Annotated[str, typer.Option(help="Field of a .jsonl line that holds the text.")] = "text",
    objective: Annotated[str, typer.Option(help="masked, or causal: a model of the next token, of the same shape.")] = "masked",
    max_length: Annotated[int, typer.Option(help="Longest text in tokens, start and end tokens included.")] = 128,
    segment_lengths: Annotated[
        str | None,
        typer.Option(help="Lengths that lines are cut to, one drawn for each line; by default 24, 64 and --max-length."),
    ] = None,
    buckets: Annotated[
        str | None, typer.Option(help="Row lengths that segments are packed into; the last is --max-length.")
    ] = None,
    masking: Annotated[
        str | None,
        typer.Option(
            help="fixed:R, uniform:A-B, k:N, span:R, words:R, or a mixture W*..+W*..; by default uniform:0.05-0.45, "
            "of translations uniform:0-1."
        ),
    ] = None,
    mask_source: Annotated[float, typer.Option(help="With --parallel: rate at which source tokens are masked, too.")] = 0.0,
    refinement: Annotated[
        float, typer.Option(help="With --parallel: weight of learning to correct one's own one-step output.")
    ] = 0.0,
    replacement: Annotated[str, typer.Option(help="Shares of masked tokens shown as mask, random token, themselves.")] = "1,0,0",
    loss: Annotated[str, typer.Option(help="factorised, or block (chain rule inside the masked block).")] = "factorised",
    compatibility: Annotated[float, typer.Option(help="Weight of the compatibility regulariser.")] = 0.0,
    compatibility_rows: Annotated[int, typer.Option(help="Rows of each batch it looks at; 0 is an eighth.")] = 0,
    optimiser: Annotated[
        str, typer.Option(help="muon (orthogonalised steps for the layers' matrices), or adamw for all.")
    ] = "muon",
    lr: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    warmup: Annotated[int, typer.Option(help="Steps of rising learning rate; at most a tenth of all steps.")] = 500,
    steps: Annotated[int, typer.Option(help="Optimisation steps; 0 takes them from --epochs.")] = 0,
    epochs: Annotated[float, typer.Option(help="Passes over the corpus, where --steps is 0.")] = 3.0,
    batch_tokens: Annotated[int | None, typer.Option(help="Tokens of each step.")] = None,
    weight_decay: Annotated[float, typer.Option(help="Weight decay of matrices.")] = 0.01,
    beta2: Annotated[float, typer.Option(help="AdamW's second beta.")] = 0.98,
    clip: Annotated[float, typer.Option(help="Largest norm of the gradient.")] = 1.0,
    dropout: Annotated[float, typer.Option(help="Share of each layer's output that training drops.")] = 0.0,
    label_smoothing: Annotated[float, typer.Option(help="Share of each answer spread over the vocabulary.")] = 0.0,
    precision: Annotated[str, typer.Option(help="Of matrix products: float32, bfloat16, or auto (bfloat16 on a GPU).")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of weights, order and masks.")] = 0,
    valid: Annotated[
        Path | None, typer.Option(parser=options.path, metavar="PATH", help="Held-out text; by default a share of the corpus.")
    ] = None,
    valid_share: Annotated[float, typer.Option(help="Share of the corpus' lines held out, where there is no --valid.")] = 0.02,
    valid_max_tokens: Annotated[int | None, typer.Option(help="Validate on segments of at most this many tokens.")] = None,
    valid_every: Annotated[int, typer.Option(help="Steps between validations; 0 is a tenth of the run.")] = 0,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints; 0 is a twentieth of the run.")] = 0,
    max_minutes: Annotated[float | None, typer.Option(help="Pause after this time, with a checkpoint for --resume.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    keep_checkpoints: Annotated[
        bool, typer.Option("--keep-checkpoints", help="Keep the last checkpoints of a finished run.")
    ] = False,
    half: Annotated[bool, typer.Option("--half", help="Write the weights in float16.")] = False,
    licence: Annotated[str, typer.Option(help="Licence of the data, for the model card.")] = "unknown",
    cache: Annotated[
        Path | None,
        typer.Option(parser=options.path, metavar="PATH", help="Folder for tokenised corpora; by default ~/.cache/unmask."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    compile: Annotated[bool | None, typer.Option(help="Compile the model; by default on a GPU.")] = None,
    as_json: Json = False,
) -> None:
    """Train a masked language model from plain text, or with --objective causal a causal one.

    Writes a folder that `unmask fill --model OUT` and Hugging Face's AutoModelForMaskedLM load (a causal one: `unmask diagnose
    --judge OUT` and AutoModelForCausalLM), with a model card.
    Ctrl-C leaves a checkpoint; --resume goes on from there with the same numbers.
    """
    given = {name: value for name, value in locals().items() if name != "as_json"}
    import unmask
    from unmask.cli.process import INTERRUPTED
    from unmask.cli.terminal import messages, print_json, progress

    given |= {"corpus": given["corpus"] or None, "rename": read_renames(given["rename"])}
    with progress(lines=True) as report:
        made = unmask.train(**given, progress=_telling_the_plan(report))
    if as_json:
        print_json(made.to_dict())
    else:
        print(made)
    if not made.finished:
        messages().print("add --resume to the same command to go on")
        raise typer.Exit(INTERRUPTED if made.status == "interrupted" else 0)


def _telling_the_plan(report: Progress | None) -> Progress:
    """The same, with a line of its own for the first report of steps, which says how many there will be."""
    told = False

    def tell(done: int, total: int, what: str = "") -> None:
        nonlocal told
        if total and not told:
            from unmask.cli.terminal import messages

            messages().print(what, soft_wrap=True, highlight=False)
            told, what = True, "training"
        if report:
            report(done, total, what)

    return tell
