"""Metadata of exporters: the parameters and buffers of a module that a node reads, and rewrites of nodes.

PyTorch's exporter by `torch.export` writes the traced call of each node; there parameters have the prefix `p_`, buffers
`b_` and numbers of the program `c_`, and dots of names are underscores. Its rewrites leave the names of their rules.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from onnx import NodeProto

CALL = "pkg.torch.onnx.fx_node"
SCOPES = "pkg.torch.onnx.name_scopes"
CLASSES = "pkg.torch.onnx.class_hierarchy"
RULES = "pkg.onnxscript.rewriter.rule_name"
PYTORCH = "pytorch"
"""The start of `producer_name` of PyTorch's exporters."""
PARAMETER, BUFFER, NUMBER = "p_", "b_", "c_"
LONGEST = 1 << 16
"""The most characters of a text that are read."""

KEEPING = (
    "`deployer.torch` takes a module as it is; torch.onnx.export keeps its parameters by (..., dynamo=False,"
    " training=TrainingMode.TRAINING, do_constant_folding=False), and without batch norms by (..., dynamo=True,"
    " optimize=False)"
)
"""Hint on a file that keeps a module's parameters."""
INVENTED = re.compile(
    r"onnx::\w+_\d+|const_fold_opt__\d+|val_\d+|_to_copy(_\d+)?|[Cc]onstant(_\d+)?|initializer(_\d+)?"
    r"|.*/[Cc]onstant(_\d+)?(_output_\d+)?|/.*_output_\d+|[tv]?_?\d+|arg\d+(_\d+)?|lifted_tensor_\d+|expand(_\d+)?"
    r"|embedding(_\d+)?|(un)?squeeze(_\d+)?|view(_\d+)?|reshape(_\d+)?|t(_\d+)?|transpose(_\d+)?|permute(_\d+)?"
    r"|slice_\d+|select(_\d+)?|unsqueeze_default(_\d+)?|(ones|zeros|full|arange|tril|triu|where|scalar_tensor)(_\d+)?"
)
"""Names that exporters give to tensors that they computed on the way, or that have none in the module."""
LEARNED = re.compile(r"(.*[._])?(weight|bias|gamma|beta|kernel)(_\w+)?|.*\.original\d*")
"""Names that layers of the usual libraries give to their parameters, and to nothing else."""
COMPUTED = re.compile(r"onnx::(\w+)_\d+|const_fold_opt__\d+|val_\d+")
"""Those of the names that say that an exporter computed a tensor from others."""


@dataclass(frozen=True)
class Origin:
    """Origin of a node: names of values that the traced call read, its module, and rewrites that made it."""

    read: frozenset[str] = frozenset()
    scope: str = ""
    rules: tuple[str, ...] = ()
    classes: str = ""

    @property
    def known(self) -> bool:
        """Whether the traced call is known."""
        return bool(self.read)

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters among what the call read, as it has them."""
        return frozenset(name for name in self.read if name.startswith(PARAMETER))

    @property
    def folds_norm(self) -> bool:
        """Whether the node stands for a batch norm as well."""
        return any("FuseBatchNorm" in rule for rule in self.rules)

    @property
    def lost_bias(self) -> bool:
        """Whether a rewrite left a bias of zeros out of the node."""
        return any("RemoveOptionalBias" in rule for rule in self.rules)


UNKNOWN = Origin()


@dataclass(frozen=True)
class Origins:
    """Origins in a file: whether PyTorch wrote it, of each node by name, and of node outputs by value."""

    producer: str = ""
    nodes: Mapping[str, Origin] = field(default_factory=dict)

    @property
    def by_pytorch(self) -> bool:
        """Whether names are those that PyTorch gives."""
        return self.producer.lower().startswith(PYTORCH)

    def of(self, node: str) -> Origin:
        """Origin of a node, or of the one that it is a part of."""
        while node not in self.nodes and "/" in node:
            node = node.rpartition("/")[0]
        return self.nodes.get(node, UNKNOWN)

    @cached_property
    def parameters(self) -> frozenset[str]:
        """All parameters that traced calls read."""
        return frozenset().union(*(origin.parameters for origin in self.nodes.values()))


UNTOLD = Origins()


def origins_of(producer: str, nodes: Iterable[tuple[str, NodeProto]]) -> Origins:
    """Origins of a file's nodes, by their names."""
    found = {name: _origin({p.key: p.value[:LONGEST] for p in proto.metadata_props}) for name, proto in nodes}
    return Origins(producer, {name: origin for name, origin in found.items() if origin != UNKNOWN})


def _origin(props: Mapping[str, str]) -> Origin:
    call = props.get(CALL, "")
    arguments = call.partition("](args = ")[2]
    read = frozenset(name.lower() for name in re.findall(r"%(\w+)", arguments))
    scopes = re.findall(r"'([^']*)'", props.get(SCOPES, ""))
    scope = scopes[-2] if len(scopes) > 1 else ""
    rules = tuple(filter(None, (rule.strip() for rule in props.get(RULES, "").split(","))))
    return Origin(read, scope, rules, props.get(CLASSES, ""))


def traced(name: str, prefix: str = PARAMETER) -> str:
    """A tensor of the module as a traced call has it."""
    return (prefix + re.sub(r"\W", "_", name)).lower()


def mentions(origin: Origin, name: str, prefix: str = PARAMETER) -> bool:
    """Whether the traced call of a node read a tensor of the module of that name."""
    sought = traced(name, prefix)
    return any(re.fullmatch(re.escape(sought) + r"(_\d+)?", read.lower()) for read in origin.read if read[:2] == prefix)


def is_invented(name: str) -> bool:
    """Whether a name is one that exporters give."""
    return bool(INVENTED.fullmatch(name))
