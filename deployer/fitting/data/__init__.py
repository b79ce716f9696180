"""Samples of `fit`: arrays and tables, folders of images, and sources that are read anew in every epoch."""
