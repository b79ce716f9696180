"""Code generation: a plan printed as C, without decisions; the same plan gives the same text."""

from functools import cache
from pathlib import Path
from typing import Any

from mako import exceptions
from mako.lookup import TemplateLookup
from mako.template import Template

import deployer.templates
from deployer.codegen import render
from deployer.codegen.harness import harness_view, segment_view
from deployer.codegen.kernel_headers import kernel_header
from deployer.codegen.kernel_text import printed_kernel
from deployer.codegen.simulation_map import simulation_view
from deployer.core.errors import InternalError
from deployer.core.kernel import Kernel
from deployer.core.plan import Plan, target_of
from deployer.core.safe_text import TEMPLATE_OPTIONS

TEMPLATES = Path(deployer.templates.__file__).parent
FILE_NAMES = {"train": "TrainingNetwork.c", "optimizer": "OptimizerNetwork.c", "infer": "InferenceNetwork.c"}


def sources(plan: Plan) -> tuple[str, ...]:
    """Names of the C files of a plan."""
    simulated = ("SimulationMap.c",) if target_of(plan.options).guard_bytes else ()
    return tuple(sorted(("Harness.c", *simulated, *(FILE_NAMES[graph] for graph in plan.graphs))))


def generate_files(plan: Plan, harness: str = "") -> dict[str, str]:
    """The text of each file by name: a C file per graph, header, harness, kernel headers, and the simulator's map.

    The harness is that of a whole run, or the one that is given. The header has the names that the others use.
    """
    target = target_of(plan.options)
    graphs, origin = plan.graphs, render.provenance(plan)
    files = {FILE_NAMES[graph]: rendered("network.c", render.network_view(plan, graph, origin)) for graph in graphs}
    main = "harness.c" if "train" in graphs else "inference.c"
    files["Harness.c"] = harness or rendered(main, harness_view(plan, target, origin))
    if target.guard_bytes:
        files["SimulationMap.c"] = rendered("simulation.c", simulation_view(plan, target, origin))
    files = {"Network.h": rendered("network.h", render.header_view(plan, target, origin, files.values())), **files}
    for kernel in dict.fromkeys(step.kernel for step in plan.steps):
        files |= kernel_files(kernel)
    return files


def segment_files(plan: Plan) -> dict[str, str]:
    """The same files, whose main program makes a segment of a run, from a state to a state."""
    target = target_of(plan.options)
    return generate_files(plan, rendered("segment.c", segment_view(plan, target, render.provenance(plan))))


def kernel_files(kernel: Kernel) -> dict[str, str]:
    """The header of a kernel, and its C where that is printed from a formula."""
    printed = printed_kernel(kernel.symbol)
    source = {f"{kernel.symbol}.c": rendered(*printed)} if printed else {}
    return {f"{kernel.symbol}.h": kernel_header(kernel), **source}


@cache
def _template(name: str) -> Template:
    lookup = TemplateLookup(directories=[str(TEMPLATES)], **TEMPLATE_OPTIONS)
    return lookup.get_template(f"{name}.mako")


def rendered(name: str, view: Any) -> str:
    """The text that a template prints of a view."""
    template = _template(name)
    try:
        return str(template.render(v=view))
    except OSError:  # of a template that this one includes, which is read only now
        raise
    except Exception as error:
        facts = [("traceback", exceptions.text_error_template().render())]
        raise InternalError(f"template {name}: {error}", facts) from error
