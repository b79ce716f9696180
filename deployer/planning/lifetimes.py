"""Lifetimes: from which step to which each storage must keep its content."""

from deployer.core.plan import Lifetime, Lifetimes, Schedule


def find_lifetimes(schedule: Schedule) -> Lifetimes:
    """The steps in which each storage of the schedule is live.

    Weights are live always, and so are samples that are held; others from the first step on, and values from their
    producer to their last reader. Accumulators are live always if several passes add to them, or else from their
    gradient to their update. What is read from outside is live to the end of the graph that computes it. The lazy-reset
    flag is an argument and needs no memory.
    """
    program = schedule.program
    last_step = max(len(schedule.steps) - 1, 0)
    graph_end = {step.graph: step.index for step in schedule.steps}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for step in schedule.steps:
        for operand in step.access.operands:
            storage = program.storage(operand.tensor)
            first.setdefault(storage, step.index)
            last[storage] = step.index
    for name in program.outputs:
        storage = program.storage(name)
        first.setdefault(storage, 0)
        last[storage] = graph_end.get(program.made_in(name), 0)
    for name in program.weights:
        first.setdefault(name, 0)
    storages = []
    for storage in sorted(first, key=lambda s: (first[s], s)):
        tensor = program.tensors[storage]
        loaded = tensor.role in ("weight", "constant", "data")
        several = not schedule.options.updates_every_pass
        persistent = tensor.role in ("weight", "constant") or (tensor.role == "accumulator" and several)
        persistent |= storage in program.held
        begin = 0 if loaded or persistent else first[storage]
        end = last_step if persistent else last[storage]
        storages.append(Lifetime(storage, tensor.type.bytes, begin, end, loaded, persistent))
    return Lifetimes(schedule, tuple(storages))
