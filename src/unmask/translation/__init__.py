"""Translation with a masked language model: a source held fixed, its translation decoded or sampled by `sampling`.

translate    `unmask.translate`, and its result: translations, BLEU, chrF, stutter
settings     all options that decide the translations
translators  a masked and a causal model of pairs, each with its way of translating     sharing   sources on Ray
pairs        a source and its translation in one text; length heads, fitted
beam_search  a causal model of pairs, and its translations
"""
