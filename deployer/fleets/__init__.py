"""Fleets: federated training of many simulated devices, each an instance of the packaged library."""
