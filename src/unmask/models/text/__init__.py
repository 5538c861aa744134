"""How a text becomes tokens and back: the only room that knows tokenizers.

text_tokenizer    `TextTokenizer`, which other rooms ask: from text to ids and back, by the rules that a cloze needs
blanks, words     blanks and the ways to read them; whole words and alphabets, as token ids
loading           the tokenizer of a checkpoint, refused if it cannot be the model's: `load_tokenizer`
vocabulary        a tokenizer from a tokenizer.json or a list of tokens, without transformers
word_pieces       the tokenizer of a trained model; of a model of pairs, without special tokens
"""
