"""Libraries of C from runs and from modules."""
