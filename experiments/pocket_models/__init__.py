"""The pocket model from nothing: oracle demonstrations on training tasks, a tokenizer, language-model training."""
