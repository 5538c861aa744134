"""Names that other tools have for our options and commands, for the line that answers an unknown one.

    unmask fill TEXT --top-k 5        error: --top-k is not an option of fill: use --top (how many completions to show)
    unmask.fill(text, top_k=5)        InputError: top_k is not an argument of fill: use top (how many completions to show)

EVERYWHERE   our option: its names elsewhere, for every verb that has the option
OF_VERB      the same for one verb, which comes first
SAID         names without one option of ours: what to do, as the command line writes it, or on it and in Python; "" is for all
COMMANDS     our command: names of commands and functions elsewhere

The names are those of transformers (pipelines, generate, Trainer), minicons, the LM Evaluation Harness, ESM's scripts, LLaDA
and MDLM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from unmask.options.option import FLAG, Options, Row, in_python

SURE = 0.8
"""Likeness from which a word is taken for a misspelt name of another tool."""
HOW_MANY = "top_k topk k n top_n topn n_best nbest num_return_sequences num_results max_results limit num count"
TEXT = "text texts sentence sentences input inputs prompt prompts string seq sequences context"
WRITTEN = "output o output_file output_path outfile save save_path save_to"
A_FILE = "input_file infile filename file_name file_path input_path texts_file path data dataset corpus stimuli"

EVERYWHERE = {
    "model": "model_name model_name_or_path model_path model_id pretrained checkpoint ckpt model_location lm network",
    "device": "gpu cuda use_cuda no_cuda nogpu device_map use_gpu cpu gpus",
    "dtype": "torch_dtype fp16 bf16 half float16 bfloat16 precision",
    "lang": "language",
    "mask_token": "mask mask_str mask_symbol mask_token_id mask_id",
    "shift": "shift_logits",
    "seed": "random_seed random_state manual_seed rng set_seed",
    "out": f"{WRITTEN} output_dir outdir out_dir save_dir results result_dir run_dir",
    "json": "as_json output_format to_json",
    "figure": "plot fig heatmap image png save_fig draw",
    "joint": "construction method strategy joint_type",
    "joints": "constructions methods",
    "candidates": "num_candidates n_candidates max_candidates",
    "positions": "position mask_positions masked_positions mask_indices mask_index mask_idx indices index sites target_idx pos",
    "alphabet": "vocab vocabulary amino_acids aa allowed_tokens",
    "exact": "full full_vocab whole_vocab exhaustive all",
    "force": "yes no_limit",
    "file": A_FILE,
    "engine": "backend distributed",
    "workers": "num_workers n_workers n_jobs jobs num_proc processes",
    "memory": "max_memory gpu_memory mem",
    "profile": "profile_path profile_file",
    "length": "max_length max_len gen_length seq_len seq_length num_tokens max_new_tokens max_tokens answer_length",
    "burn_in": "burnin burn warmup tune",
    "thin": "thinning save_every",
    "temperature": "temp t",
    "proposal_temperature": "q_temperature",
    "nucleus": "top_p p typical_p",
    "block_size": "block_len span_length n_blocks",
    "schedule": "mask_schedule noise_schedule masking_schedule gamma_schedule scheduler",
    "tau": "threshold confidence confidence_threshold",
    "order": "generation_order decoding_order unmask_order sampling_order",
    "decoding_steps": "denoising_steps diffusion_steps sampling_steps refinement_steps decode_steps nfe",
    "decoding_temperature": "decoder_temperature sampling_temperature",
    "sites": "num_sites n_sites spins size n",
    "coupling": "beta strength",
    "states": "num_states colours colors values",
    "graph": "topology lattice edges",
    "fields": "field h external_field bias",
    "fits": "repeats trials replicates num_fits",
}

OF_VERB: dict[str, dict[str, str]] = {
    "fill": {
        "text": TEXT + " sequence",
        "top": HOW_MANY,
        "answers": "alternatives choices options completions words fillers candidate_words labels score_words restrict_to",
        "passes": "num_beams beam_size beam beams max_passes budget steps num_steps iterations",
        "allow": "allowed allowed_words constraints force_words force_words_ids",
        "forbid": "bad_words bad_words_ids exclude banned ban stop_words suppress_tokens blacklist",
        "match": "regex pattern",
        "pieces": "max_pieces subwords max_subwords word_pieces",
        "mass": "top_p p threshold min_prob nucleus probability",
        "targets": "gold reference label",
    },
    "compare": {
        "text": TEXT + " sequence",
        "top": HOW_MANY,
        "targets": "answers alternatives choices options words gold reference label",
    },
    "dependence": {
        "text": TEXT + " sequence",
        "sentences": "max_sentences num_sentences max_texts num_texts limit n",
        "others": "rest surrounding",
    },
    "mutants": {
        "sequence": TEXT + " wt wildtype wild_type wt_sequence protein",
        "mutations": "mutation mutant mutants variants substitutions subs",
        "positions": "residues region",
        "changes": "num_mutations n_mutations max_mutations depth k",
        "measured": "dms dms_input dms_file assay csv data dataset mutation_file",
        "column": "dms_score score_column target_column value value_column fitness",
        "variant": "mutation_col mutation_column mutant_column variant_column",
        "scores": "score scoring_strategy scoring metric metrics",
        "by": "sort sort_by rank_by order_by rank",
        "top": "top_k topk n top_n topn limit num count",
        "run": "cache checkpoint_dir",
        "out": "dms_output",
    },
    "check": {"data": TEXT + " file input_file dataset corpus eval_data validation path"},
    "serve": {
        "beside": "compare second other model2 versus second_model",
        "host": "address bind listen ip hostname server_name",
        "port": "server_port p",
        "runs": "run folder logdir results",
        "open_browser": "browser open inbrowser launch",
    },
    "score": {
        "inputs": TEXT + " files file " + A_FILE,
        "score": "metric metrics method scores measure scorer pll_metric PLL_metric task",
        "pairs": "minimal_pairs blimp pair tasks good_bad",
        "field": "column key text_column text_field col",
        "rows": "by per level granularity per_token by_token token_scores per_word by_word",
        "unit": "units base log_base base_two base2 bits",
        "format": "as_csv csv tsv parquet jsonl output_format",
        "orders": "num_orders n_orders samples num_samples n_samples mc_num mc_samples nll_samples",
        "long": "truncation truncate max_length stride window windows overflow",
        "definitions": "list list_scores explain",
        "exact_tokens": "exact max_exact",
        "chains": "particles runs num_chains",
        "anneals": "temperatures betas levels",
    },
    "evaluate": {
        "data": "dataset texts text corpus file input input_file data_path path",
        "pairs": "num_pairs n_pairs max_pairs limit n samples num_samples num",
        "scheme": "masking_scheme mask_scheme pair_type",
        "arnold_gokhale_steps": "ag_steps steps num_steps iterations max_iter",
        "memory": "batch_size",
        "joints": "joint construction method",
    },
    "frontier": {
        "data": "dataset texts text corpus file input input_file data_path path",
        "decoders": "decoder kernel kernels sampler samplers method",
        "passes": "steps num_steps nfe budgets iterations decoding_steps",
        "sentences": "max_sentences num_sentences max_texts num_texts limit n num_samples samples",
        "first": "truncate truncation",
    },
    "sample": {
        "kernel": "sampler method algorithm alg decoder remasking strategy predictor",
        "chains": "num_samples n_samples num_return_sequences n samples num_texts num_chains n_chains num count",
        "template": TEXT + " prefix sequence",
        "init": "initial start seed_text init_text starts",
        "random_start": "random_init",
        "ladder": "temperatures betas",
        "chains_at_once": "batch batch_size per_device_batch_size",
        "block_size": "block_length",
    },
    "diagnose": {
        "run": "folder run_dir path input dir out results samples file",
        "judge": "judge_model lm ppl_model model scorer eval_model perplexity_model",
    },
    "train": {
        "corpus": "data train_file train_data dataset input file files text texts data_dir path",
        "lr": "learning_rate max_lr peak_lr",
        "epochs": "num_train_epochs num_epochs n_epochs max_epochs",
        "steps": "max_steps num_steps iterations max_iters num_train_steps max_train_steps",
        "batch_tokens": "batch_size per_device_train_batch_size train_batch_size tokens_per_batch bs max_tokens",
        "masking": "mlm_probability mlm_prob mask_prob mask_rate mask_ratio masking_rate mask_probability",
        "replacement": "replace_prob random_replace_prob mask_replace_prob",
        "init": "model model_name model_name_or_path checkpoint from_pretrained pretrained base_model",
        "tokenizer": "tokenizer_name tokenizer_path tokenizer_file",
        "vocab": "vocab_size vocabulary_size",
        "max_length": "max_seq_length block_size seq_len seq_length context_length max_len max_position_embeddings",
        "layers": "num_layers n_layers n_layer num_hidden_layers depth",
        "width": "hidden_size d_model dim n_embd embed_dim hidden",
        "heads": "num_heads n_heads n_head num_attention_heads",
        "optimiser": "optimizer optim",
        "warmup": "warmup_steps num_warmup_steps warmup_ratio",
        "weight_decay": "wd",
        "clip": "max_grad_norm grad_clip clip_grad gradient_clip",
        "beta2": "adam_beta2",
        "precision": "dtype fp16 bf16 mixed_precision amp torch_dtype",
        "dropout": "dropout_prob hidden_dropout_prob",
        "label_smoothing": "label_smoothing_factor",
        "valid": "validation_file eval_file valid_file val_file dev validation val eval_data",
        "valid_share": "validation_split_percentage val_split validation_split valid_fraction",
        "valid_every": "eval_steps eval_every eval_interval val_every",
        "checkpoint_every": "save_steps save_every save_interval",
        "resume": "resume_from_checkpoint resume_from continue",
        "push_to": "push_to_hub hub_model_id hub",
        "private": "hub_private_repo",
        "licence": "license",
        "compile": "torch_compile",
        "parallel": "bitext pairs source target src tgt",
        "size": "model_size preset arch config",
        "max_minutes": "max_time time_limit timeout minutes hours",
        "field": "column text_column text_column_name key",
        "cache": "cache_dir",
        "objective": "task model_type mlm causal",
    },
    "translate": {
        "texts": "source sources input src file text source_file sentences data",
        "reference": "references ref refs tgt target targets gold",
        "decoder": "method strategy",
        "kernel": "sampler",
        "steps": "iterations iters num_steps max_iter iter_decode_max_iter decoding_iterations decoding_steps",
        "lengths": "length_beam length_candidates num_lengths length_beam_size iter_decode_with_beam",
        "beam": "beam_size num_beams beam_width",
        "penalty": "length_penalty lenpen",
    },
    "lab masking": {"samples": "num_samples n_samples", "fits": "runs"},
    "lab schedule": {"orders": "num_orders samples num_samples"},
}

NO_DRAWS = "it gives probabilities and draws nothing; to draw texts use `unmask sample`"
TO_FILE = "print it with --json > FILE", "use .to_frame() or .to_dict() of what it returns"
SAID: dict[str, dict[str, str | tuple[str, str]]] = {
    "": {
        "batch_size batch per_device_batch_size": "passes are batched for the device; give many texts at once, which share them",
        "tokenizer tokenizer_name": "the tokenizer is the one in the folder of --model",
        "trust_remote_code": "code in a checkpoint is never run; in Python, load it yourself and use unmask.MaskedLM.of",
        "verbose quiet": "progress is on standard error; add 2> /dev/null to hide it",
        f"csv tsv {WRITTEN}": TO_FILE,
        "top_p nucleus do_sample": NO_DRAWS,
    },
    "fill": {
        "temperature temp t seed num_samples n_samples samples do_sample": NO_DRAWS,
        "max_length max_new_tokens max_tokens gen_length length num_tokens": "write one [MASK] per token, or [GAP:2-5]",
        "metric score scores": "it ranks fillings by --joint; to score texts use `unmask score`",
        "remasking block_length cfg_scale": "it has no decoder; to decode use `unmask sample --kernel NAME`",
        f"out output_dir {WRITTEN}": ("print it with --json > FILE", "use .to_frame() of the answer"),
    },
    "compare": {"temperature temp seed num_samples": NO_DRAWS},
    "dependence": {
        "metric measure": "it measures mutual information, in nats",
        "top top_k": "all pairs are printed; --positions chooses tokens",
    },
    "mutants": {
        "offset_idx offset": "residues count from 1, without an offset; cut the sequence to match",
        "msa msa_path": "no alignment is read; --background subtracts the scores of another model or sequence",
        "temperature num_samples": NO_DRAWS,
    },
    "serve": {
        "share public": "there is no password; forward the port with ssh -L, or listen elsewhere with --host",
        "file": "texts are typed into the page; --runs opens finished runs",
    },
    "score": {
        "surprisal prob": "scores are log-probabilities; a surprisal is minus a log-probability",
        "reduction normalize mean": "rows have sums and means per token; --rows tokens gives each token",
        "prefix before target after query": "give a .csv file with columns before, target and after",
        "top top_k": "every text has one row",
    },
    "evaluate": {"tasks": "tasks of the LM Evaluation Harness run with the command unmask-lm-eval"},
    "sample": {
        "steps num_steps n_steps iterations iters n_iter num_iters max_iter epochs": (
            "chains redraw all of their tokens --sweeps times; decoders fill a text in --decoding-steps"
        ),
        "cfg cfg_scale guidance guidance_scale": "there is no guidance; in Python user_terms adds terms to the energy",
        "repetition_penalty no_repeat_ngram_size": "there is no penalty; in Python user_terms adds terms to the energy",
        "do_sample greedy": "every draw is random; --decoding-temperature 0 takes the likeliest tokens",
        "num_beams beam_size beam": "there is no beam; to search for the best filling use `unmask fill`",
        "figure plot": "`unmask diagnose FOLDER` draws the figures of a run that was kept with --out",
    },
    "train": {
        "gradient_accumulation_steps grad_accum": "a step has --batch-tokens tokens, however many fit at once",
        "fsdp deepspeed ddp": "start it with torchrun --nproc-per-node N -m unmask train",
        "logging_steps report_to wandb": "the run writes its numbers to the folder of --out",
    },
}

COMMANDS = {
    "fill": "predict fill-mask fill_mask mask unmask complete infill inpaint impute restore",
    "fill --answers": "choose alternatives",
    "score": "ppl perplexity pll pppl pseudo-perplexity pseudo_perplexity likelihood log_prob logprob nll sequence_score",
    "score --rows": "surprisal surprisals token_score token-score",
    "score --pairs": "blimp minimal-pairs minimal_pairs acceptability pair pairs babylm",
    "sample": "generate gen decode mcmc gibbs diffuse diffusion draw",
    "dependence": "mi mutual-information mutual_information attention heatmap pmi",
    "mutants": "variants dms epistasis mutations zero-shot zero_shot scan mutate",
    "evaluate": "eval bench benchmark table1",
    "train": "pretrain fit learn",
    "train --init": "finetune fine-tune fine_tune continue",
    "check": "info inspect doctor test validate model",
    "serve": "app web ui gui start page demo server run",
    "lab": "theory study studies",
    "diagnose": "rhat ess diagnostics trace convergence",
    "translate": "mt translation",
    "frontier": "speed pareto nfe",
    "compare": "joint joints constructions",
}


def misnamed(verb: str, table: type[Options], typed: str, python: bool = False) -> str:
    """The line that answers an option, or in Python an argument, that a verb does not have."""
    found = meant(verb, table, plain(typed)) or _nearest(verb, table, plain(typed))
    if isinstance(found, Row):
        found = _use(found, table, python)
    elif isinstance(found, tuple):
        found = found[python]
    elif found and python:
        found = in_python(re.sub(r"`unmask (\w+)[^`]*`", r"`unmask.\1`", found))
    see = f"see help(unmask.{verb.replace(' ', '.')})" if python else f"see unmask {verb} --help"
    return f"{typed} is not an {'argument' if python else 'option'} of {verb}: {found or see}"


def plain(typed: str) -> str:
    """A name as Python writes it."""
    return typed.lstrip("-").replace("-", "_")


def meant(verb: str, table: type[Options], name: str) -> Row | str | tuple[str, str] | None:
    """The option that a name stands for, or what to do instead."""
    rows = {row.name: row for row in table.declared()}
    if name in rows:
        return rows[name]
    for options, said in ((OF_VERB.get(verb, {}), SAID.get(verb, {})), (EVERYWHERE, SAID[""])):
        for option, names in options.items():
            if option in rows and name in names.split():
                return rows[option]
        for names, words in said.items():
            flags = FLAG.findall(words[0] if isinstance(words, tuple) else words.split("`")[0])
            if name in names.split() and all(plain(flag) in rows for flag in flags):
                return words
    return None


def _nearest(verb: str, table: type[Options], name: str) -> Row | str | tuple[str, str] | None:
    """What the most similar name stands for: one of ours, or a very similar one of another tool."""
    near = get_close_matches(name, [row.name for row in table.declared()], n=1)
    lists = (*OF_VERB.get(verb, {}).values(), *SAID.get(verb, {}), *EVERYWHERE.values())
    near = near or get_close_matches(name, " ".join(lists).split(), n=1, cutoff=SURE)
    return meant(verb, table, near[0]) if near else None


def _use(row: Row, table: type[Options], python: bool) -> str:
    """How an option is given."""
    if python and row.command_only:
        return row.python
    if row.argument and not python:
        return f"give it without a name, such as {table.examples[0]}"
    said = row.kind.says(row.help).rstrip(".")
    said = said[0].lower() + said[1:] if said.split()[0].istitle() else said
    return f"use {row.name} ({in_python(said)})" if python else f"use {row.flags[0].split('/')[0]} ({said})"


def command_for(typed: str, known: Iterable[str], alone: bool = True) -> str | None:
    """The command, with an option where that matters, that a name stands for: another tool's (`alone`), or the most similar."""
    found = next((ours for ours, names in COMMANDS.items() if alone and typed.lower() in names.split()), None)
    return found or next(iter(get_close_matches(typed, list(known), n=1)), None)
