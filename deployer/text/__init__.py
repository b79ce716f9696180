"""Text for language models: tokenizers in Python and C, documents as rows of tokens, samplers, a small text."""
