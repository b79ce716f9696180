"""Transfer with a frozen part of 8 bits, beside floats."""
