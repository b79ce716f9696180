"""Mako templates: they loop and print, every decision is made before."""
