"""Check operators against their contract: accuracy and invariance, forward and backward.

Run as `python -m DeployTest.check_operator NAME ...`; without names all operators. Exit code 1 where one breaks it.
"""

import argparse
import sys

from deployer.core.operator import registry
from deployer.testing.contract import judged, operators
from DeployTest.support.tolerances import class_of


def main(words: list[str] | None = None) -> int:
    """Print what was judged of each operator, the kernels that ran, and the faults."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.check_operator", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="operators, by default all")
    names = parser.parse_args(words).names or operators()
    unknown = [name for name in names if name not in operators()]
    if unknown:
        print(f"there is no operator {unknown[0]!r}\n  try  one of {', '.join(operators())}", file=sys.stderr)
        return 2
    broken = 0
    for name in names:
        findings = judged(name)
        sources = ", ".join(sorted(findings.sources.values())) or "no kernel"
        row = class_of(registry()[name])
        print(f"{name} ({row}): {sum(c.numbers for c in findings.comparisons)} numbers, by {sources}")
        for judgment in dict.fromkeys(c.judgment for c in findings.comparisons):
            shares = [c.share for c in findings.comparisons if c.judgment == judgment]
            print(f"  {judgment:<20} {len(shares)} compared, {max(shares):.2f} of the bound")
        for reason in findings.refused:
            print(f"  no gradient of {reason}")
        for fault in findings.faults:
            print(f"  FAULT {fault}")
        broken += bool(findings.faults)
    print(f"{len(names)} operators, {broken} break their contract")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
