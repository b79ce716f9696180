"""`compile_step`: a training step for a loop in Python."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from deployer.core.errors import Warn, python_warning
from deployer.fitting.argument_names import named_parameters
from deployer.fitting.call import GroupSpec, check_dropout, grad_limits, hyperparameters, takes_mean
from deployer.lr_schedules.windows import ACCUMULATIONS
from deployer.torch.loss_choice import ClassWeights, choose_loss
from deployer.torch.objective_step import CaptureOptions
from deployer.torch.objectives import LossSpec
from deployer.torch.own_loop.compiled import CompiledStep
from deployer.torch.own_loop.step_variant import StepOptions
from deployer.torch.rules.parameter_groups import parameter_groups
from deployer.torch.rules.update_rule import OptimizerSpec, update_rule


@named_parameters
def compile_step(
    module: nn.Module,
    loss: LossSpec,
    optimizer: OptimizerSpec = "",
    example: Any = None,
    *,
    lr: float | None = None,
    momentum: float | None = None,
    weight_decay: float | None = None,
    betas: tuple[float, float] | None = None,
    eps: float | None = None,
    alpha: float | None = None,
    nesterov: bool = False,
    max_grad_norm: float | None = None,
    max_grad_value: float | None = None,
    param_groups: Sequence[GroupSpec] = (),
    any_rate: bool = False,
    accumulate_grad_batches: int = 1,
    accumulate: str = ACCUMULATIONS[1],
    class_weights: ClassWeights = (),
    label_smoothing: float | None = None,
    ignore_index: int | None = None,
    delta: float | None = None,
    beta: float | None = None,
    dropout: str = "on",
    seed: int = 0,
    check: bool = True,
    recompile: bool = False,
    cores: int | None = None,
    canonical_batch: bool = False,
    warn: Warn = python_warning,
) -> CompiledStep:
    """A training step of the module for a loop of your own: `loss = step(x, y)` makes a pass and its update.

    The step is compiled for the batch `example`, (x, y) or a mapping by the names of arguments, or at the first call;
    then each call runs generated C in this process. The bits are those of `train` on the same batches. `loss` is a
    name, a function of (output, target), or "model"; `optimizer` a name, or an optimizer of `torch.optim`: its groups
    count, its present rates are taken in each call, so that schedulers of PyTorch go on working, and what has no
    equivalent here is an error. The arguments:

    - `lr`: learning rate, by default 0.01; `step.lr` changes it. `momentum`, `weight_decay`, `betas`, `eps`, `alpha`
      (decay rate of the mean squared gradient), `nesterov`: those of the optimizer, with PyTorch's defaults.
    - `max_grad_norm` bounds the norm of all gradients, `max_grad_value` the magnitude of an element; off by default.
    - `param_groups`: mappings as in PyTorch, such as {"params": "bias$", "weight_decay": 0.0}; `params` may be a
      regular expression, names or parameters, and "frozen": True leaves them as they are.
    - `any_rate` allows rates that are negative or very large.
    - `accumulate_grad_batches`: passes per update; `accumulate` takes the "mean" of their gradients or the "sum".
    - `class_weights`, `label_smoothing`, `ignore_index`, `delta`, `beta`: those of a loss by name.
    - `dropout` "off" leaves dropout out; `seed` is that of its random numbers.
    - `check` compares the captured step with PyTorch in float64 before it is compiled.
    - `recompile` compiles anew for a batch of another size, with the present state; otherwise that is an error.
    - `canonical_batch` adds gradients up sample by sample, so that bits do not depend on how an update is split.
    - `cores`: threads. `warn` is called with what is odd but harmless.

    Raises OptionProblem for arguments without meaning, CaptureMismatch where the captured step is not PyTorch's, and
    what capturing, planning and compiling raise.
    """
    is_mean = takes_mean(accumulate, accumulate_grad_batches)
    given = hyperparameters(
        momentum=momentum,
        weight_decay=weight_decay,
        betas=betas,
        eps=eps,
        alpha=alpha,
        nesterov=nesterov,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
        delta=delta,
        beta=beta,
    )
    chosen, of_optimizer = choose_loss(loss, given, class_weights)
    limits = grad_limits(max_grad_norm, max_grad_value)
    groups = parameter_groups(module, param_groups)
    rule = update_rule(module, optimizer, lr, of_optimizer, groups, limits, any_rate, apart=True)
    capture = CaptureOptions(seed, check_dropout(dropout), check, is_mean)
    options = StepOptions(capture, accumulate_grad_batches, cores, recompile, warn, canonical_batch)
    step = CompiledStep(module, chosen, rule, options)
    if example is not None:
        step.compile(example)
    return step
