"""`unmask` under the names that other packages' users know: the LM Evaluation Harness."""
