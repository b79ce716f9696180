"""Trains a case on Siracusa by the deployer that is on the path, which may be that of another checkout.

Run as `python measured.py FOLDER L1 PROFILE OPTIONS`; prints figures as JSON. With a PROFILE of 1 each step is
measured, too. OPTIONS is JSON of further fields of the compiler's options.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from deployer import pipeline
from deployer.core.plan import Options


def main() -> None:
    """Plan with `auto`, build, run."""
    folder, l1, profile, further = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1", json.loads(sys.argv[4])
    further = {name: tuple(value) if isinstance(value, list) else value for name, value in further.items()}
    case = pipeline.load_training(folder)
    tiling, plan = pipeline.plan_case(case, Options("siracusa", "auto", {"L1": l1}, **further))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        pipeline.write_case(case, tiling, plan, place)
        pipeline.build_case(plan, place)
        outcome = pipeline.execute(case, plan, place)
        rows = pipeline.profile(case, plan, place, measured=True) if profile else []
    bits = hashlib.sha256(np.array(outcome.losses, np.float32).tobytes())
    for array in sorted(outcome.arrays):
        bits.update(outcome.arrays[array].tobytes())
    kernels = {step.index: step.kernel.symbol for step in plan.steps}
    figures = {
        "train": int(outcome.bench["train_cycles"]),
        "optimizer": int(outcome.bench["opt_cycles"]),
        "predicted": [plan.cycles(graph) for graph in plan.graphs],
        "rewrites": list(getattr(plan, "rewrites", ())),  # a checkout may be one that does not say
        "bits": bits.hexdigest()[:12],
        "steps": [
            {
                "step": r.step,
                "op": r.op,
                "kernel": kernels[r.step],
                "tiles": len(r.kernel),
                "cycles": r.cycles,
                "predicted": r.predicted,
            }
            for r in rows
        ],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
