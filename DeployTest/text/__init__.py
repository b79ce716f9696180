"""Tokenizers, documents as rows of tokens, samplers, and the text that comes with the project."""
