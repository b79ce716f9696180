"""Commands about machines: boards that a model fits, and conformance of a HAL."""
