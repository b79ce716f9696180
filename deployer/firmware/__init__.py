"""Firmware libraries: a training case as a folder of C that is built into other programs."""
