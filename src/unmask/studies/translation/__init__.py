"""Translation with a masked language model: a source held fixed, its translation decoded or
sampled by `sampling`.

recipe        the ways to translate, and the settings that decide the translations
spelling      from sentences to tokens and back
masked_pairs  a masked model of pairs
drafts        its translations: drafts, decoded and moved
causal_pairs  a causal model of pairs, and its translations by beam search
translating   from sources to translations, here or by workers
result        translations, with BLEU, chrF and stutter
"""
