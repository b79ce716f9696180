"""Plans a case with the deployer that is on the path, which may be that of another checkout; prints figures as JSON.

Run as `python planned.py FOLDER L1 L2`; L2 is 0 where tensors stay there.
"""

import json
import resource
import sys
import time
from pathlib import Path

from deployer import pipeline
from deployer.core.artefact import digest
from deployer.core.plan import Options


def main() -> None:
    """Plan the case on the host's target with `auto`."""
    folder, l1, l2 = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    case = pipeline.load_training(folder)
    budgets = {"L1": l1, "L2": l2} if l2 else {"L1": l1}
    begin = time.process_time()
    _, plan = pipeline.plan_case(case, Options("host", "auto", budgets, outermost="L3" if l2 else None))
    figures = {
        "seconds": time.process_time() - begin,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "steps": len(plan.steps),
        "cycles": sum(plan.cycles(graph) for graph in plan.graphs),
        "digest": digest(plan),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
