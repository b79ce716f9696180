"""The judges of artefacts and of results."""
