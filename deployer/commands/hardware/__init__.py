"""Commands about machines: which boards a model fits on."""
