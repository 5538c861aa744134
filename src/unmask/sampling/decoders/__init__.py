"""Decoders: rules that fill blanks in a few passes, one family per file."""
