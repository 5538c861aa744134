"""Translation with a masked language model: a source held fixed, its translation decoded or sampled by `sampling`.

translate    `unmask.translate`                                             result       translations, BLEU, chrF, stutter
settings     all options that decide the translations                       beam_search  translations of a causal model of pairs
pair_model   a model of pairs, its tokenizer and its length head            length_fit   the fit of that head
drafts       translations under way: decoded, moved by a kernel, scored
"""
