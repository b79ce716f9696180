"""Facts of a run that its page and its report.json share; every field is plain data of JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deployer.core.ir import TRAINED, Node, Program, TensorRecord
from deployer.core.operator import operator_of
from deployer.core.traits.training import Loss, Optimizer


@dataclass(frozen=True)
class RunFacts:
    """Model, data and settings of a run. What is not known is empty, or 0.

    `learning_rates` are the different initial rates of the parameters, `lr_schedule` the name of their schedule.
    `batch` is the number of samples of a pass, `accumulation` the number of passes of an update, `parameters` the
    number of trained values. `command` is the command line; a run of the Python interface has none.
    """

    model: str = ""
    dataset: str = ""
    loss: str = ""
    optimizer: str = ""
    learning_rates: tuple[float, ...] = ()
    lr_schedule: str = ""
    batch: int = 0
    accumulation: int = 1
    parameters: int = 0
    target: str = ""
    version: str = ""
    command: str = ""

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each fact that is known."""
        rate = ", ".join(f"{rate:.6g}" for rate in self.learning_rates)
        rate += f", schedule {self.lr_schedule}" if rate and self.lr_schedule else self.lr_schedule
        batch = f"{self.batch}, accumulated over {self.accumulation} passes" if self.accumulation > 1 else self.batch
        rows = [
            ("Model", self.model),
            ("Dataset", self.dataset),
            ("Loss", self.loss),
            ("Optimizer", self.optimizer),
            ("Learning rate", rate),
            ("Batch", str(batch) if self.batch else ""),
            ("Parameters", f"{self.parameters:,}" if self.parameters else ""),
            ("Target", self.target),
            ("Version", f"deployer {self.version}" if self.version else ""),
            ("Command", self.command),
        ]
        return [(label, text) for label, text in rows if text]


def parameter_count(tensors: Sequence[TensorRecord]) -> int:
    """The number of trained values."""
    return sum(math.prod(tensor.shape) for tensor in tensors if tensor.role == TRAINED)


def loss_name(program: Program) -> str:
    """The name of the loss in a program; that of its operator where no option names it."""
    roles = [(node, operator_of(node).role(Loss)) for node in program.graphs[0].nodes]
    return next((role.choice or node.op for node, role in reversed(roles) if role), "")


def optimizer_names(program: Program) -> str:
    """The names of the optimizers in a program."""
    return ", ".join(dict.fromkeys(role.choice for _, role in _updates(program)))


def learning_rates(program: Program) -> tuple[float, ...]:
    """The different learning rates that the nodes of a program's update have."""
    return tuple(dict.fromkeys(node.attr_float(role.rate, role.default_rate) for node, role in _updates(program)))


def batch_size(program: Program) -> int:
    """The length of the first axis of the first data input; 0 where it has none."""
    shapes = [program.tensors[name].type.shape for name in program.data]
    return next((shape[0] for shape in shapes if shape), 0)


def _updates(program: Program) -> list[tuple[Node, Optimizer]]:
    roles = [(node, operator_of(node).role(Optimizer)) for node in program.nodes]
    return [(node, role) for node, role in roles if role]
