"""Flower as the engine: its ServerApp, ClientApp, messages, grid and simulation runtime, with back ends of our own.

Flower's `run_simulation` is deprecated and always takes Ray. `run_api`, on which it stands, takes any back end, so this
module makes the runtime's state as `run_simulation` does and hands over its own back ends. Modules below
`flwr.server.superlink` are not part of Flower's stable interface: the extra `fleet` asks for a version of them.
"""

import functools
import importlib
import importlib.util
import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from deployer.core.errors import OptionProblem, ToolFailed, ToolMissing
from deployer.fleets.device import DeviceReply, DeviceTask, FleetRules, devices_of
from deployer.fleets.engines import Ask, DeviceOutcome, arrived, shortened_cause
from deployer.fleets.options import BACKENDS, FAILED, LATE, LOOP, PROCESSES, RAY, THREADS
from deployer.fleets.worker_processes import WorkerProcess

CONFIG, WEIGHTS, MEMORY, UPDATE, METRICS = "config", "weights", "memory", "update", "metrics"
"""Records of messages: settings and weights of a task; update and metrics of a reply; what a device keeps in both."""
POLL = 0.02
"""Seconds between looks for replies."""
WINDOW = 64
"""Messages that are under way at most: the runtime looks through all of them for each node that waits."""
INSTALL = "pip install 'deployer[fleet]', or --backend loop"
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Variables by which Flower and Ray send nothing to their makers."""
MODULES = {
    "vce": "flwr.server.superlink.fleet.vce.vce_api",
    "metrics": "flwr.server.superlink.fleet.vce.metrics",
    "linkstate": "flwr.server.superlink.linkstate",
    "records": "flwr.server.superlink.linkstate.in_memory_linkstate",
    "grid": "flwr.superlink.grid",
    "federation": "flwr.superlink.federation",
    "store": "flwr.supercore.object_store",
    "common": "flwr.common.constant",
    "constants": "flwr.supercore.constant",
    "run": "flwr.supercore.run",
    "identity": "flwr.supercore.task_identity",
    "task": "flwr.proto.task_pb2",
}
"""Modules of the simulation runtime, which are not part of the stable interface, by their names here."""
RAY_MODULE = "flwr.server.superlink.fleet.vce.backend.raybackend"


def flower_engine(backend: str, workers: int) -> "FlowerEngine":
    """The engine with a back end by its name; ToolMissing where Flower, or Ray for its back end, is not installed."""
    for name, needed in (("flwr", True), ("ray", backend == RAY)):
        if needed and importlib.util.find_spec(name) is None:
            others = ", ".join(other for other in BACKENDS if other not in (RAY, LOOP, backend))
            hint = INSTALL if name == "flwr" else f"{INSTALL}, {others}"
            raise ToolMissing(f"{name} is not installed", [("--backend", backend)], hint)
    os.environ.update(QUIET)
    most = min(32, (os.cpu_count() or 1) + 4)
    if workers > most:
        cause = f"--workers {workers} is more than Flower's runtime has threads for"
        raise OptionProblem(cause, [("at most", str(most))], f"--workers {most}")
    return FlowerEngine(backend, workers)


@functools.lru_cache(maxsize=1)
def _flower() -> Any:
    """Flower's modules by the names above; ToolFailed where a version has them in other places."""
    try:
        from flwr import app, clientapp, serverapp

        found = SimpleNamespace(app=app, client=clientapp, server=serverapp)
        vars(found).update({name: importlib.import_module(path) for name, path in MODULES.items()})
        logging.getLogger("flwr").setLevel(logging.CRITICAL)  # its errors are outcomes here; importing sets the level
        return found
    except ImportError as error:
        facts = [("cause", str(error))]
        raise ToolFailed("this version of Flower has another simulation runtime", facts, INSTALL) from error


# Tasks and replies as Flower's records.


def _records(arrays: Mapping[str, Any]) -> Any:
    app = _flower().app
    return app.ArrayRecord({name: app.Array(array) for name, array in arrays.items()})


def _arrays(content: Any, name: str) -> dict[str, Any]:
    return {key: array.numpy() for key, array in content[name].items()} if name in content else {}


def _task_content(task: DeviceTask, weights: Any) -> Any:
    """The content of a task's message; `weights` is the record that all tasks of the round share."""
    app = _flower().app
    settings = {"device": task.device, "round": task.round, "first_pass": task.first_pass, "fault": task.fault}
    content = {WEIGHTS: weights, CONFIG: app.ConfigRecord(settings | {"rates": [float(r) for r in task.rates]})}
    if task.memory:
        content[MEMORY] = _records(task.memory)
    return app.RecordDict(content)


def _read_task(content: Any) -> DeviceTask:
    settings = dict(content[CONFIG])
    rates = tuple(settings.pop("rates"))
    return DeviceTask(weights=_arrays(content, WEIGHTS), rates=rates, memory=_arrays(content, MEMORY), **settings)


def _reply_content(reply: DeviceReply) -> Any:
    app = _flower().app
    numbers = {"device": reply.device, "samples": reply.samples, "passes": reply.passes, "loss": reply.loss}
    content = {UPDATE: _records(reply.arrays), METRICS: app.MetricRecord(numbers)}
    if reply.memory:
        content[MEMORY] = _records(reply.memory)
    return app.RecordDict(content)


def _read_reply(content: Any) -> DeviceReply:
    return DeviceReply(arrays=_arrays(content, UPDATE), memory=_arrays(content, MEMORY), **dict(content[METRICS]))


def client_app(rules: FleetRules) -> Any:
    """The ClientApp of a fleet: a training message is a device's task, and its reply what the device sends."""
    app = _flower().client.ClientApp()

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Any, context: Any) -> Any:
        reply = devices_of(rules).work(_read_task(message.content))
        return _flower().app.Message(_reply_content(reply), reply_to=message)

    return app


# Back ends: where Flower's runtime runs the ClientApp. They have the methods of its class Backend.


@dataclass(eq=False)
class ThreadBackend:
    """Devices in threads of this process: the library's C runs without the interpreter's lock."""

    num_workers: int
    app: Any = None

    def build(self, app_fn: Callable[[], Any]) -> None:
        """Take the ClientApp."""
        self.app = app_fn()

    def is_worker_idle(self) -> bool:
        """True: workers are the runtime's threads, and a thread asks only when it has nothing to do."""
        return True

    def process_message(self, message: Any, context: Any) -> tuple[Any, Any]:
        """Run the ClientApp."""
        return self.app(message, context), context

    def terminate(self) -> None:
        """Do nothing: threads end with the runtime."""


@dataclass(eq=False)
class ProcessBackend:
    """Devices in so many processes; one that dies is started again."""

    num_workers: int
    free: "queue.SimpleQueue[WorkerProcess]" = field(default_factory=queue.SimpleQueue)
    started: list[WorkerProcess] = field(default_factory=list)

    def build(self, app_fn: Callable[[], Any]) -> None:
        """Start the processes, which make the ClientApp by that function, and wait until they answer."""
        self.started += [WorkerProcess(_run_client, app_fn) for _ in range(self.num_workers)]
        for worker in self.started:
            worker.wait()
            self.free.put(worker)

    def is_worker_idle(self) -> bool:
        """Whether a worker is free."""
        return not self.free.empty()

    def process_message(self, message: Any, context: Any) -> tuple[Any, Any]:
        """Run the ClientApp in a process that is free; RuntimeError where that dies or fails."""
        worker = self.free.get()
        try:
            found: tuple[Any, Any] = worker.call(message, context)
        finally:
            self.free.put(worker)
        return found

    def terminate(self) -> None:
        """End all processes."""
        for worker in self.started:
            worker.close()


def _run_client(app: Any, message: Any, context: Any) -> tuple[Any, Any]:
    """Run the ClientApp, in a process of its own."""
    return app(message, context), context


class RayBackend:
    """Flower's back end of Ray, with so many actors; one whose process dies is replaced, where Flower's would stay."""

    def __init__(self, workers: int) -> None:
        settings = {"include_dashboard": False, "num_cpus": workers, "logging_level": logging.CRITICAL}
        config: dict[str, Any] = {"init_args": {**settings, "log_to_driver": False}, "actor": {"tensorflow": 0}}
        config["client_resources"] = {"num_cpus": 1, "num_gpus": 0.0}
        self._backend = importlib.import_module(RAY_MODULE).RayBackend(config)
        from ray.exceptions import RayActorError

        self._died = RayActorError

    def process_message(self, message: Any, context: Any) -> tuple[Any, Any]:
        """Run the ClientApp in an actor that is idle."""
        pool = self._backend.pool
        job = self._backend.app_fn, message, str(message.metadata.dst_node_id), context
        future = pool.submit(lambda actor, *given: actor.run.remote(*given), job)
        try:
            found: tuple[Any, Any] = pool.fetch_result_and_return_actor_to_pool(future)
        except self._died as error:
            pool._future_to_actor.pop(future)
            pool.pool.append(pool.create_actor_fn())
            raise RuntimeError("the device's process has ended") from error
        except Exception:
            pool.add_actor_back_to_pool(future)
            raise
        return found

    def __getattr__(self, name: str) -> Any:
        """Whatever else Flower's back end has."""
        return getattr(self._backend, name)


class _Watched:
    """A back end that tells an event when it is built, so that no deadline runs before."""

    def __init__(self, backend: Any, ready: threading.Event) -> None:
        self._backend, self._ready = backend, ready

    def build(self, app_fn: Callable[[], Any]) -> None:
        """Build it."""
        self._backend.build(app_fn)
        self._ready.set()

    def __getattr__(self, name: str) -> Any:
        """Whatever else the back end has."""
        return getattr(self._backend, name)


BUILDERS: dict[str, Callable[[int], Any]] = {THREADS: ThreadBackend, PROCESSES: ProcessBackend, RAY: RayBackend}


@dataclass(frozen=True)
class FlowerEngine:
    """Devices as nodes of Flower's simulation runtime, on one of the back ends."""

    backend: str
    workers: int

    def play(self, rules: FleetRules, devices: int, server: Callable[[Ask], None]) -> None:
        """Run the server as a ServerApp, in this thread, beside the runtime; errors of both are raised.

        Raises ToolFailed where the runtime ends before the server does.
        """
        flower = _flower()
        link = _Link(devices)
        failures = list[BaseException]()

        def runtime() -> None:
            try:
                flower.vce.run_api(
                    functools.partial(client_app, rules),
                    lambda: _Watched(BUILDERS[self.backend](self.workers), link.ready),
                    link,
                    link.factory,
                    link.stores,
                    link.stop,
                    flower.metrics.VceMetrics(),
                )
            except BaseException as error:
                failures.append(error.__cause__ or error)
            finally:
                link.stop.set()
                link.ready.set()

        app = flower.server.ServerApp()

        @app.main()  # type: ignore[untyped-decorator]
        def main(grid: Any, context: Any) -> None:
            server(functools.partial(_asked, link, grid, failures))

        thread = threading.Thread(target=runtime, daemon=True)
        thread.start()
        link.ready.wait()
        try:
            app(link.grid, link.context)
        finally:
            link.stop.set()
            thread.join(timeout=60)


class _Link:
    """State of Flower's runtime in this process: a run, a node for each device, and the grid of the server.

    For the runtime it is the mapping of nodes, of whose `keys` it looks for messages: those that wait for one.
    """

    def __init__(self, devices: int) -> None:
        flower, constants = _flower(), _flower().constants
        self.stop, self.ready = threading.Event(), threading.Event()
        manager, store = flower.federation.NoOpFederationManager(), flower.store.ObjectStoreFactory()
        self.factory = flower.linkstate.LinkStateFactory(constants.FLWR_IN_MEMORY_DB_NAME, manager, store)
        run = flower.run.Run.create_empty(run_id=1)
        run.primary_task_id, run.federation_id = 1, constants.NOOP_FEDERATION_ID
        identity = flower.identity.TaskIdentity
        identity.task_id, identity.run_id, identity.node_id = 1, run.run_id, flower.common.SUPERLINK_NODE_ID
        state = self.factory.state()
        state.run_ids[run.run_id] = flower.records.RunRecord(run=run)
        state.task_store[1] = flower.task.Task(task_id=1, run_id=run.run_id)
        nodes = flower.vce._register_nodes(devices, self.factory)
        self.stores = flower.vce._register_node_info_stores(nodes, run)
        self.node_of, self.waiting = {device: node for node, device in nodes.items()}, set[int]()
        self.grid = flower.grid.InMemoryGrid(self.factory, pull_interval=POLL)
        self.grid.set_run(run)
        config, records = dict[str, Any](), flower.app.RecordDict()
        self.context = flower.app.Context(
            run_id=run.run_id, node_id=0, node_config=config, state=records, run_config=config
        )

    def keys(self) -> list[int]:
        """The nodes that messages are under way to."""
        return list(self.waiting)


def _asked(
    link: _Link, grid: Any, failures: Sequence[BaseException], tasks: Sequence[DeviceTask], deadline: float | None
) -> list[DeviceOutcome]:
    """The outcomes of a round: replies until the deadline, then the others are late."""
    app = _flower().app
    weights, left, waiting = _records(tasks[0].weights), deque(tasks), dict[str, DeviceTask]()
    ends, found = time.monotonic() + (deadline or float("inf")), list[DeviceOutcome]()
    while (waiting or left) and time.monotonic() < ends:
        while left and len(waiting) < WINDOW:
            task = left.popleft()
            node = link.node_of[task.device]
            message = app.Message(_task_content(task, weights), dst_node_id=node, message_type=app.MessageType.TRAIN)
            link.waiting.add(node)
            taken = list(grid.push_messages([message]))
            if not taken:
                raise ToolFailed("Flower has not taken a message", [("device", str(task.device))], INSTALL)
            waiting[taken[0]] = task
        for message in grid.pull_messages(list(waiting)):
            task = waiting.pop(message.metadata.reply_to_message_id)
            link.waiting.discard(link.node_of[task.device])
            if message.has_error():
                found.append(DeviceOutcome(task.device, FAILED, shortened_cause(message.error.reason)))
            else:
                found.append(arrived(task, _read_reply(message.content)))
        if link.stop.is_set() and waiting:
            cause = str(failures[0]) if failures else "none was told"
            hint = "--backend threads, or --resume after the cause is gone"
            raise ToolFailed("Flower's simulation runtime has ended before the fleet", [("cause", cause)], hint)
        if len(waiting) == WINDOW or not left:
            time.sleep(POLL if waiting else 0)
    late = [*waiting.values(), *left]
    return found + [DeviceOutcome(task.device, LATE, f"no reply after {deadline} s") for task in late]
