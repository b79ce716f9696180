"""Targets as data, RISC-V and its simulators, calibration."""
