"""Rules by which operators of a quantized model are computed in integers, a module per family."""
