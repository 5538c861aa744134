"""Translation with a masked language model: a source held fixed, its translation decoded or sampled by the room to the left.

pair_model   a model of pairs, its tokenizer and the head that predicts lengths
drafts       translations under way: decoded, moved by a kernel, scored           settings    what decides the translations
translate    `unmask.translate`                                                   evaluation  BLEU, chrF, stutter
"""
