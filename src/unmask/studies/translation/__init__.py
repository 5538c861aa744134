"""Translation with a masked language model: a source held fixed, its translation decoded or
sampled by `sampling`.

recipe       the ways to translate, and what decides the translations
translators  a masked and a causal model of pairs, each with its way of translating; results
             with BLEU, chrF and stutter
pairs        a source and its translation in one text; length heads, fitted
"""
