"""The nodes of an update that limit gradients: each element of them, and their norm together."""

from collections.abc import Callable, Mapping

from deployer.core.ir import Node
from deployer.operators.activation.clip import Clip
from deployer.operators.arithmetic.mul import Mul
from deployer.operators.update.norm_scale import NormScale
from deployer.operators.update.square_sum import SquareSum


def by_value(
    gradients: Mapping[str, str], limit: float, fresh: Callable[[str], str]
) -> tuple[list[Node], dict[str, str]]:
    """Nodes that keep each element between -limit and limit, and the new gradient of each weight."""
    clipped = {weight: fresh(f"{weight}_grad_clipped") for weight in gradients}
    bounds = {"min": -limit, "max": limit}
    nodes = [Node(f"clip_{w}", Clip.name, (g,), (clipped[w],), dict(bounds)) for w, g in gradients.items()]
    return nodes, clipped


def by_norm(
    gradients: Mapping[str, str], limit: float, fresh: Callable[[str], str]
) -> tuple[list[Node], dict[str, str]]:
    """Nodes that scale all gradients by one number, so that their norm is at most `limit`, and the new gradients.

    The squares are summed weight by weight, in the order of `gradients`.
    """
    nodes, total = list[Node](), tuple[str, ...]()
    for weight, gradient in gradients.items():
        result = fresh(f"{weight}_grad_squares")
        nodes.append(Node(f"squares_{weight}", SquareSum.name, (gradient, *total), (result,)))
        total = (result,)
    scale = fresh("gradient_scale")
    nodes.append(Node("gradient_scale", NormScale.name, total, (scale,), {"limit": limit}))
    scaled = {weight: fresh(f"{weight}_grad_scaled") for weight in gradients}
    nodes += [Node(f"scale_{w}", Mul.name, (g, scale), (scaled[w],)) for w, g in gradients.items()]
    return nodes, scaled
