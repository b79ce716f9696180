"""Faults planted in a copy of generated C are each caught by the host simulator, by the right name."""

import re
from pathlib import Path

import pytest

from deployer.core.errors import RunFailed
from DeployTest.support.building.cases import Built, compile_case, load_case
from DeployTest.support.building.planted import planted

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.doublebuffer]


@pytest.fixture(scope="module")
def built(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A double-buffered program with many tiles."""
    return compile_case(load_case("autoencoder", models_root), tmp_path_factory.mktemp("c"), "double", 8000)


FAULTS = {
    "forgotten ingress wait": (r"hal_dma_wait\((\w+_in\[\w*use\])\)", r"(void)\g<1>", "forgotten-wait"),
    "one of several ingress waits forgotten": (r"(hal_dma_wait_all\(in\[use\], )2\)", r"\g<1>1)", "forgotten-wait"),
    "forgotten egress wait": (r"(hal_dma_wait_all\(y_out, )2\)", r"\g<1>1)", "forgotten-wait"),
    "swapped slot in the kernel": (
        r"(args->\w+ = .*\+ )(\w*use) \* ",
        r"\g<1>(1 - \g<2>) * ",
        "forgotten-wait|argument",
    ),
    "swapped slot in the transfer": (
        r"(hal_dma_in_\w+\(0, SLOT_\w+ \+ )(\w*fill) \* ",
        r"\g<1>(1 - \g<2>) * ",
        "trace",
    ),
    "swapped slot on the way out": (
        r"(hal_dma_out_\w+\(0, HOME_\w+.*SLOT_\w+ \+ )(\w*use) \* ",
        r"\g<1>(1 - \g<2>) * ",
        "trace",
    ),
    "ingress one element late": (
        r"(hal_dma_in_\w+\(0, SLOT_\w+.*, HOME_\w+ \+ next_\w+( \* \d+)?)",
        r"\g<1> + 1",
        "trace|outside-buffer",
    ),
    "ingress one element short": (r"(hal_dma_in_1d\(0, .*, )(\d+)\)", r"\g<1>\g<2> - 4)", "trace"),
    "egress one element long": (
        r"(hal_dma_out_1d\(0, .*, )(\w+ \* 4|\d+)\)",
        r"\g<1>\g<2> + 4)",
        "trace|outside-buffer",
    ),
    "egress one element late": (
        r"(hal_dma_out_\w+\(0, HOME_\w+ \+ [^,]+)",
        r"\g<1> + 1",
        "trace|outside-buffer",
    ),
    "a tile too few": (
        r"(for \(uint32_t iter = 0; iter <= )(\d+)",
        r"\g<1>\g<2> - 1",
        "tile-count|forgotten-wait|trace",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_caught(fault: str, built: Built, tmp_path: Path) -> None:
    """The simulator names the fault and the step, whenever transfers happen."""
    pattern, replacement, names = FAULTS[fault]
    copy = planted(built, tmp_path / "c", pattern, replacement)
    for order in ("early", "late", "random"):
        with pytest.raises(RunFailed) as caught:
            copy.run("--dma-order", order)
        assert re.search(rf"hal: step \d+ '[^']+': ({names}):", str(caught.value)), f"{order}: {caught.value}"


ORDER_FAULTS = {
    "a step left out": (
        r"^    RUN_\d+\(23, [^;]*;\n",
        "",
        "OptimizerNetwork.c",
        r"step 22 '.*': order: hal_step\(24 .*\) where step 23 '.*' of graph 'optimizer' in pass 0 of 4 is due",
    ),
    "an update left out": (
        r"pass % ACCUMULATE == ACCUMULATE - 1",
        "pass != 2",
        "Harness.c",
        r"'between graphs': order: hal_step\(0 .*\) where step UPDATE '.*' of graph 'optimizer' in pass 2 of 4 is due",
    ),
    "an update after the last pass left out": (
        r"pass % ACCUMULATE == ACCUMULATE - 1",
        "pass != 3",
        "Harness.c",
        r"order: the program ends where step UPDATE '.*' of graph 'optimizer' in pass 3 of 4 is due",
    ),
    "two updates at once": (
        r"^( *)optimizer_network_run\(\);",
        r"\g<1>optimizer_network_run(); optimizer_network_run();",
        "Harness.c",
        r"order: hal_step\(UPDATE .*\) where step 0 '.*' of graph 'train' in pass 1 of 4 is due",
    ),
}


@pytest.mark.parametrize("fault", ORDER_FAULTS)
def test_order(fault: str, built: Built, tmp_path: Path) -> None:
    """Every step is demanded, and every graph in every pass; UPDATE stands for the first step of the update."""
    pattern, replacement, file, words = ORDER_FAULTS[fault]
    copy = planted(built, tmp_path / "c", pattern, replacement, file)
    update = next(step.index for step in built.plan.steps if step.graph == "optimizer")
    with pytest.raises(RunFailed, match=words.replace("UPDATE", str(update))):
        copy.run()


def test_untouched_passes(built: Built, tmp_path: Path) -> None:
    """The copy itself is sound, so that each fault above is the cause of its error."""
    copy = planted(built, tmp_path / "c", r"\A", "")
    assert copy.run().errors == 0
