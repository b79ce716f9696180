"""Libraries whose heads train on latents and on a ring of them."""
