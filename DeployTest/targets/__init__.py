"""HALs, simulators and calibration."""
