"""Translation with a masked language model: a source held fixed, its translation decoded or sampled by `sampling`.

translate    `unmask.translate`
translators  a masked and a causal model of pairs, each with its way of translating     sharing   sources on Ray
settings     all options that decide the translations      result   translations, BLEU, chrF, stutter
pairs        a source and its translation in one text; length heads, fitted
drafts       a masked model of pairs; its translations under way: decoded, moved by a kernel, scored
beam_search  a causal model of pairs, and its translations
"""
