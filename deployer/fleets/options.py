"""Names of strategies, splits, compressions and back ends; nothing heavy is loaded for them."""

FEDAVG, FEDPROX, FEDAVGM, FEDADAM, GRADIENTS = STRATEGIES = ("fedavg", "fedprox", "fedavgm", "fedadam", "gradients")
IID, DIRICHLET, SHARDS, FILES = SPLITS = ("iid", "dirichlet", "shards", "files")
THREADS, PROCESSES, RAY, LOOP = BACKENDS = ("threads", "processes", "ray", "loop")
NONE, INT8, TOP_K = COMPRESSIONS = ("none", "int8", "topk")
REPLIED, LATE, FAILED = OUTCOMES = ("replied", "late", "failed")
"""Outcomes of a device that a round asks."""
KILLED = "killed"
"""A drawn fault: the device fails with its process."""
