"""Masked language models: from Hugging Face checkpoints, and from explicit tables."""
