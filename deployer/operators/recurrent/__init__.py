"""Recurrent layers, lowered to products over all steps at once and the steps through time."""
