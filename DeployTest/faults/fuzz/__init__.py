"""A seeded fuzzer of everything a user can hand to the deployer; `docs/testing.md` says what it draws and judges."""
