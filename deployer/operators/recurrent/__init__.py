"""Recurrent layers, and the steps through time that they are made of, forward and backward."""
