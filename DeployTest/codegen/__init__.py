"""Generated C, byte for byte."""
