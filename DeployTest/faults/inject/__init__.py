"""Plants faults in generated programs, between their code and the HAL, and records who notices: docs/detection.md."""
