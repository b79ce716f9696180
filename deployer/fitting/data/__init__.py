"""Samples of `fit`: arrays and tables, folders of images, and sources of batches that every epoch reads again."""
