"""Training of masked language models: corpus, masking schemes, losses, the loop and the folder
it leaves.
"""
