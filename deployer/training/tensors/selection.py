"""The tensors of a forward model that are trained: by default, by a regular expression, or by a module's parameters."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deployer.core.errors import DeployerWarning, OptionProblem, facts_of
from deployer.core.ir import CONSTANT, FROZEN, STATE, TRAINED
from deployer.core.operator import Array
from deployer.core.safe_text import parameter_name
from deployer.training.autodiff import unreachable
from deployer.training.forward import Forward, matches
from deployer.training.groups import ParameterGroup
from deployer.training.tensors.decisions import OF_LAYERS, OPEN, Decider, Decision, pattern_of
from deployer.training.tensors.edits import NO_EDITS, Edits, WeightCopy
from deployer.training.tensors.matching import Matcher, by_key, check_lost, copy_of, once, said
from deployer.training.tensors.origins import traced
from deployer.training.tensors.uses import is_uniform

Expected = Sequence[str] | Mapping[str, Array]
"""The module's parameters: their names, or the numbers too."""
FILE = "--parameters"
CHOICES = (
    "--param-group 'REGEX:trained' and --param-group 'REGEX:frozen' for these, --trainable REGEX for all, or"
    " --parameters FILE.safetensors with what the module's named_parameters() gives"
)


@dataclass(frozen=True)
class Selection:
    """Trained tensors in file order, roles of all float tensors, warnings, and rewrites."""

    parameters: tuple[str, ...]
    decisions: tuple[Decision, ...]
    warnings: tuple[DeployerWarning, ...] = ()
    edits: Edits = NO_EDITS


def select(
    model: Forward, trainable: str = "", expected: Expected = (), groups: Sequence[ParameterGroup] = ()
) -> Selection:
    """Say which tensors are trained.

    `trainable` is an expression that is searched for in names; without one, and without `expected` parameters, layers'
    parameters are trained. `groups` decide about tensors that are left open.
    Raises OptionProblem where nothing is trained, where nobody decides about a tensor, and for parameters that the
    model lacks; GraphProblem where a tensor that is asked for is unused.
    """
    decider = Decider(model)
    decisions = decider.decisions()
    if isinstance(expected, Mapping):
        return _by_parameters(decider, decisions, expected, trainable, groups)
    if trainable:
        chosen = chosen_by(decider, decisions, trainable)
        found = [_explicit(d, d.name in chosen, f"matched by --trainable {trainable!r}") for d in decisions]
    else:
        found = _by_names(decider, decisions, expected) if expected else decisions
        found = _by_groups(found, groups)
    copies = _copies(decider, found, {}, open_too=not trainable)
    found = [_as_copy(d, copies) for d in found]
    if not trainable:
        _check_open(found)
    return _selection(decider, found, Edits(copies, _repeated(decider, found)))


def chosen_by(decider: Decider, decisions: Sequence[Decision], pattern: str) -> set[str]:
    """The tensors in whose names, or names in C, an expression is found.

    Constants of the graph are only chosen by their whole names, so that what is meant for a layer leaves them alone.
    """
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise OptionProblem(f"--trainable {pattern!r} is not a regular expression", [("cause", str(error))]) from None
    model, names = decider.model, list[str]()
    for decision in decisions:
        name = decision.name
        if matches(expression, name):
            own = name not in model.literals and name not in model.hoisted
            whole = bool(expression.fullmatch(name) or expression.fullmatch(parameter_name(name)))
            if own or whole or decision.fate not in (CONSTANT, STATE):
                names.append(name)
    if not names:
        listed = [d.name for d in decisions if d.fate != CONSTANT or d.name not in model.literals]
        raise OptionProblem(
            f"--trainable {pattern!r} matches no initializer",
            [("initializers", ", ".join(listed) or "none")],
            "an expression that is found in one of these names",
        )
    for name in names:
        if not any(name in node.inputs for node in model.raw.nodes):
            raise unreachable(name, ())
    return set(names)


def _explicit(decision: Decision, chosen: bool, why: str) -> Decision:
    """The decision where somebody chose what is trained."""
    if chosen:
        return replace(decision, fate=TRAINED, why=why)
    return replace(decision, fate=FROZEN, why=f"not {why}") if decision.fate in (TRAINED, OPEN) else decision


def _by_names(decider: Decider, decisions: Sequence[Decision], names: Sequence[str]) -> list[Decision]:
    """The decisions where the names of all parameters are known, and some may be under an exporter's names."""
    known = {*names, *(name for name in decider.model.hoisted if name.rpartition("/")[2] in names)}
    missing = {*names} - {decision.name for decision in decisions}
    found = []
    for decision in decisions:
        anonymous = decider.is_anonymous(decision.name) and bool(missing)
        renamed = bool(missing) and traced(decision.name) in {traced(name) for name in missing}
        if decision.name in known and decision.fate != STATE and decision.name not in decider.model.unused:
            found.append(replace(decision, fate=TRAINED, why=f"named by {FILE}"))
        elif decision.fate in (TRAINED, OPEN) and not anonymous and not renamed:
            found.append(replace(decision, fate=FROZEN, why=f"not named by {FILE}"))
        else:
            found.append(decision)
    return found


def _by_groups(decisions: Sequence[Decision], groups: Sequence[ParameterGroup]) -> list[Decision]:
    """The decisions after those of groups: about tensors that are open, and about all that are to be trained."""
    found = []
    for decision in decisions:
        own = [group for group in groups if matches(group.pattern, decision.name)]
        wanted = any(group.trained for group in own)
        if wanted or (own and decision.fate == OPEN):
            found.append(replace(decision, fate=TRAINED, why=f"decided by {own[0].text}"))
        else:
            found.append(decision)
    return found


def _by_parameters(
    decider: Decider,
    decisions: Sequence[Decision],
    parameters: Mapping[str, Array],
    trainable: str,
    groups: Sequence[ParameterGroup],
) -> Selection:
    """The tensors that hold a module's parameters; `trainable` may choose among these, by either name."""
    found = Matcher(decider, decisions, parameters).run()
    check_lost(found, parameters, FILE)
    expression = re.compile(trainable) if trainable else None
    result, odd = list[Decision](), list[str]()
    for decision in decisions:
        names = found.tensors.get(decision.name, [])
        if names:
            one = f"parameter {', '.join(names)}" if names != [decision.name] else "parameter of the module"
            chosen = expression is None or any(matches(expression, name) for name in (decision.name, *names))
            result.append(replace(decision, fate=TRAINED if chosen else FROZEN, why=one))
        elif decision.name in found.copies:
            result.append(decision)
        elif decision.fate in (TRAINED, OPEN):
            odd += [decision.name] if decision.fate == TRAINED else []
            result.append(replace(decision, fate=FROZEN, why=f"no parameter of {FILE}"))
        else:
            result.append(decision)
    warnings = [*said(found, FILE)]
    if odd:
        facts = facts_of("frozen", odd)
        hint = f"nothing, where {FILE} is without them on purpose"
        warnings.append(DeployerWarning(f"tensors of layers match no parameter of {FILE}", facts, hint))
    result = [_as_copy(d, found.copies) for d in _by_groups(result, groups)]
    return _selection(decider, result, Edits(found.copies, found.repeated), warnings)


def _copies(
    decider: Decider, decisions: Sequence[Decision], known: Mapping[str, WeightCopy], open_too: bool
) -> dict[str, WeightCopy]:
    """Tensors under an exporter's names that have the numbers of another one that is trained: it wrote one twice."""
    fates = {d.name: d.fate for d in decisions}
    wanted = {TRAINED, OPEN} if open_too else {TRAINED}
    arrays = {name: decider.arrays[name] for name, fate in fates.items() if fate in wanted}
    copies = dict(known)
    for names in by_key(arrays).values():
        named = [n for n in names if fates[n] == TRAINED and not decider.is_anonymous(n)]
        others = [n for n in names if decider.is_anonymous(n)]
        sources = named or [n for n in others if fates[n] == TRAINED][:1]
        for name in others:
            own = [s for s in sources if s != name and _may_copy(decider, name)]
            copy = copy_of(own[0], arrays[own[0]], arrays[name]) if own else None
            if copy is not None and name not in sources:
                copies[name] = copy
    return copies


def _may_copy(decider: Decider, name: str) -> bool:
    """Whether no traced call says that a tensor holds a parameter that no other tensor has the name of."""
    return name not in decider.model.parted and not any(decider.unclaimed(use) for use in decider.uses[name])


def _as_copy(decision: Decision, copies: Mapping[str, WeightCopy]) -> Decision:
    if decision.name not in copies:
        return decision
    return replace(decision, fate=TRAINED, why=f"one with {copies[decision.name].source}")


def _repeated(decider: Decider, decisions: Sequence[Decision]) -> dict[str, tuple[int, ...]]:
    """Trained tensors that an exporter repeated along the first axis, that of samples: one row stays of each."""
    batches = {kind.shape[0] for kind in decider.model.inputs.values() if kind.shape}
    found = {}
    for decision in decisions:
        name, shape = decision.name, decision.shape
        free = decision.fate == TRAINED and not decider.roles(name) & {*OF_LAYERS} and len(shape) > 1
        if not free or not decider.is_anonymous(name) or decision.why.startswith("one with"):
            continue
        array = decider.arrays[name]
        if shape[0] > 1 and shape[0] in batches and bool((array == array[:1]).all()):
            found[name] = (1, *shape[1:]) if is_uniform(array) else (1, *once(array).shape[1:])
    return found


def _check_open(decisions: Sequence[Decision]) -> None:
    """OptionProblem that lists the tensors that nobody decides about."""
    left = [d for d in decisions if d.fate == OPEN]
    if not left:
        return
    lines = [f"{d.name} {list(d.shape)}, {d.values}: {d.why}; {', '.join(d.readers[:2])}" for d in left]
    one = len(left) == 1
    cause = f"{len(left)} tensor{'' if one else 's'} may be {'a parameter' if one else 'parameters'} or not: say which"
    names = pattern_of([d.name for d in left])
    facts = [*facts_of("undecided", lines), ("trained", f"--param-group '{names}:trained'")]
    raise OptionProblem(cause, [*facts, ("frozen", f"--param-group '{names}:frozen'")], CHOICES)


def _selection(
    decider: Decider, decisions: Sequence[Decision], edits: Edits, warnings: Sequence[DeployerWarning] = ()
) -> Selection:
    """The selection; OptionProblem where nothing is trained, and where `_check_shared` raises it."""
    parameters = tuple(d.name for d in decisions if d.fate == TRAINED and d.name not in edits.copies)
    if not parameters:
        raise OptionProblem(
            "the model has no initializer that can be trained",
            [("initializers", ", ".join(d.name for d in decisions) or "none")],
            (
                "quantize the model without the layers that are to be trained"
                if decider.model.packed
                else "export the weights as float initializers"
            )
            + ", or --trainable REGEX" * bool(decisions),
        )
    _check_shared(decider.model, parameters)
    return Selection(parameters, tuple(decisions), tuple(warnings), edits)


def _check_shared(model: Forward, parameters: Sequence[str]) -> None:
    """OptionProblem for a trained constant of a function that is called twice: each call would train its own."""
    for name in parameters:
        twins = [other for other in parameters if model.shared.get(other) == model.shared.get(name, "")]
        if name in model.shared and len(twins) > 1:
            raise OptionProblem(
                f"a function that is called {len(twins)} times holds the trained constant {name!r}",
                facts_of("in call", twins),
                "make it an input of the function and an initializer of the graph",
            )
