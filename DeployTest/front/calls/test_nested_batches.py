"""Batches whose inputs are a tuple or a mapping of their own beside the target, as loops elsewhere have them."""

import importlib
from typing import Any

import pytest

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, utils = torch.nn, torch.utils.data
GENERATOR = torch.Generator().manual_seed(1)
U, V, Y = torch.randn(8, 4, generator=GENERATOR), torch.randn(8, 5, generator=GENERATOR), torch.arange(8) % 3
OPTIONS = {"lr": 0.1, "shuffle": False, "epochs": 1, "check_passes": 1}


class Sum(nn.Module):
    """Two inputs, and weights that are always the same."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 3), nn.Linear(5, 3)

    def forward(self, u: Any, v: Any) -> Any:
        """Scores."""
        return self.first(u) + self.second(v)


class Samples(utils.Dataset):
    """Inputs of a form, and a label."""

    def __init__(self, named: bool) -> None:
        self.named = named

    def __len__(self) -> int:
        return len(U)

    def __getitem__(self, i: int) -> Any:
        return ({"u": U[i], "v": V[i]} if self.named else (U[i], V[i])), Y[i]


FORMS = {
    "a tuple": ((U, V), Y),
    "a list": [[U, V], Y],
    "a mapping": ({"u": U, "v": V}, Y),
    "tuples of a dataset": Samples(False),
    "mappings of a dataset": Samples(True),
    "batches": [((U[:4], V[:4]), Y[:4]), ((U[4:], V[4:]), Y[4:])],
    "batches with mappings": [({"v": V[i : i + 4], "u": U[i : i + 4]}, Y[i : i + 4]) for i in (0, 4)],
}


@pytest.fixture(scope="module")
def losses() -> Any:
    """Those of the same samples one beside another."""
    return front.train(Sum(), (U, V, Y), "cross_entropy", batch_size=4, **OPTIONS).losses


@pytest.mark.parametrize("form", FORMS)
def test_inputs_of_their_own(form: str, losses: Any) -> None:
    """They are the module's arguments, in their order or by their names; so are those that are validated."""
    data = FORMS[form]
    run = front.train(Sum(), data, "cross_entropy", batch_size=4, validation=data, **OPTIONS)
    assert run.losses == losses


@pytest.mark.parametrize("named", [False, True])
def test_a_loader(named: bool, losses: Any) -> None:
    """A loader gives such batches, and a step of a loop takes them as they come."""
    loader = utils.DataLoader(Samples(named), batch_size=4)
    options = {**OPTIONS, "shuffle": None}
    assert front.train(Sum(), loader, "cross_entropy", validation=loader, **options).losses == losses
    for spread in (True, False):
        step = front.compile_step(Sum(), "cross_entropy", "sgd", lr=0.1)
        assert tuple(float(step(*batch) if spread else step(batch)) for batch in loader) == losses


def test_a_list_of_samples_is_a_batch() -> None:
    """A list with an array for each sample is one input, or one target, as before."""
    losses = []
    for x, y in ((U, Y), (list(U), Y), (U.numpy(), list(Y.numpy())), (list(U), list(Y))):
        torch.manual_seed(0)
        losses.append(float(front.compile_step(nn.Linear(4, 3), "cross_entropy", "sgd", lr=0.1)(x, y)))
    assert len(set(losses)) == 1


def test_lists_of_numbers_stay_one_array() -> None:
    """Labels that are a list are one target."""
    step = front.compile_step(nn.Linear(4, 3), "cross_entropy", "sgd", lr=0.1)
    other = front.compile_step(nn.Linear(4, 3), "cross_entropy", "sgd", lr=0.1)
    other.module.load_state_dict(step.module.state_dict())
    assert float(step(U, Y)) == float(other(U, Y.tolist()))
