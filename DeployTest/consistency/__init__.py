"""The consistency contract of language models: training, prefill and decoding have the same bits."""
