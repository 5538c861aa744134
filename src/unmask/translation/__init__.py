"""Translation with a masked language model: a source held fixed, its translation decoded or sampled by `sampling`.

translate    `unmask.translate`                                             result       translations, BLEU, chrF, stutter
settings     all options that decide the translations                       beam_search  translations of a causal model of pairs
pairs        a source and its translation in one text, length heads         length_fit   the fit of such a head
pair_model   a model of pairs, its tokenizer and its length head
drafts       translations under way: decoded, moved by a kernel, scored
"""
