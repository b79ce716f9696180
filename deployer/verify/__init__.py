"""Judges of artefacts and of results; nothing here calls the code that computed them."""
