"""Libraries for firmware: what they are made of, and programs that use them."""
