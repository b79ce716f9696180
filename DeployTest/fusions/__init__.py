"""Fused steps: what is fused, its tiles, and the same bits as apart."""
