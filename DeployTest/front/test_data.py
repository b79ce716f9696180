"""Training data of a module: the same samples give the same bits in every form in which people have them."""

import copy
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem
from DeployTest.fitting.test_images import HEIGHT, WIDTH, folder

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
read: Any = importlib.import_module("deployer.torch.data").read_columns
nn, utils = torch.nn, torch.utils.data


class Two(nn.Module):
    """Takes two inputs, the second of which may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Any, scale: Any = None) -> Any:
        """Scores."""
        return self.layer(x if scale is None else x * scale)


class Wrapped(Two):
    """Passes whatever it is given on."""

    def forward(self, x: Any, *more: Any, **named: Any) -> Any:
        """Scores."""
        return super().forward(x, *more, **named)


class Pairs:
    """A data set of the kind that torchvision has: a sample and its label by number, and the names of classes."""

    classes = ("cat", "dog")

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if index >= len(self.x):
            raise IndexError(index)
        return self.x[index], int(self.y[index])


class Stream(utils.IterableDataset):
    """A data set without numbers."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        return (self.pairs[i] for i in range(len(self.pairs)))


def test_forms(tmp_path: Path) -> None:
    """Arrays, tensors, loaders, data sets, generators, mappings and files; names of classes come along."""
    x, y = torch.arange(15.0).reshape(5, 3) / 7, torch.tensor([0, 1, 1, 0, 1])
    pairs, arrays = Pairs(x, y), {"labels": y.numpy(), "x": x.numpy()}
    np.savez(tmp_path / "data.npz", **arrays)
    lines = (f"{a},{b},{c},{n}\n" for (a, b, c), n in zip(x.tolist(), y.tolist(), strict=True))
    (tmp_path / "data.csv").write_text("".join(lines))
    forms: dict[str, Any] = {
        "tuple": (x, y),
        "numpy": (x.numpy(), y.numpy()),
        "loader": utils.DataLoader(utils.TensorDataset(x, y), batch_size=2),
        "loader of pairs": utils.DataLoader(pairs, batch_size=4),
        "data set": utils.TensorDataset(x, y),
        "subset": utils.Subset(utils.TensorDataset(x, y), range(5)),
        "by number": pairs,
        "stream": Stream(pairs),
        "generator": ((x[i : i + 2], y[i : i + 2]) for i in (0, 2, 4)),
        "list of batches": [(x[:3], y[:3]), (x[3:], y[3:])],
        "mapping": arrays,
        "batches by name": [{n: a[:3] for n, a in arrays.items()}, {n: a[3:] for n, a in arrays.items()}],
        "npz": tmp_path / "data.npz",
        "csv": str(tmp_path / "data.csv"),
    }
    for name, data in forms.items():
        columns = read(data, Two(), pytest.fail)
        assert np.array_equal(columns.arrays[0], x.numpy()), name
        assert (columns.arrays[1].tolist(), columns.arrays[1].dtype) == (y.tolist(), np.int64), name
        assert columns.classes == (Pairs.classes if name == "by number" else ()), name


def test_arrays_by_the_names_of_arguments() -> None:
    """One with a default may be left out; others, and more than one target, are refused; spare ones are named."""
    x = np.ones((4, 3), np.float32)
    labels, told = np.arange(4) % 2, []
    columns = read({"labels": labels, "scale": 2 * x, "x": x, "id": labels}, Two(), told.append)
    assert [array.flat[0] for array in columns.arrays] == [1, 2, 0]
    assert "'id'" in str(told[0])
    for data in ({"labels": labels}, {"x": x}, {"x": x, "labels": labels, "target": x}, [{"y": x, "labels": labels}]):
        with pytest.raises(DatasetMismatch, match="lacks arrays of the module"):
            read(data, Two(), pytest.fail)
    with pytest.raises(DatasetMismatch, match="data of type int gives no samples"):
        read(3, Two(), pytest.fail)
    with pytest.raises(DatasetMismatch, match="no labels or target"):
        read(x, Two(), pytest.fail)


def test_modules_that_take_any_arguments() -> None:
    """Nothing of what a module may take besides is missing."""
    arrays = {"x": np.ones((4, 3), np.float32), "labels": np.arange(4) % 2}
    assert len(read(arrays, Wrapped(), pytest.fail).arrays) == 2


def test_samples_that_do_not_go_together() -> None:
    """They are refused with the cause; an error of the data set's own stays what it is."""
    with pytest.raises(DatasetMismatch, match="cannot be put together") as caught:
        read(Pairs([torch.ones(3), torch.ones(4)], [0, 1]), Two(), pytest.fail)
    assert "size" in caught.value.facts[0][1]
    with pytest.raises(TypeError, match="NoneType"):
        read(Pairs([torch.ones(3)] * 2, [0, None]), Two(), pytest.fail)


def test_pictures(tmp_path: Path) -> None:
    """A data set that gives pictures says what it needs; a folder is read, gray where its first image is."""
    images = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    with pytest.raises(DatasetMismatch, match="neither a tensor nor a number") as caught:
        read(Pairs([images.new("RGB", (2, 2))] * 2, [0, 1]), Two(), pytest.fail)
    assert "ToTensor" in caught.value.hint
    columns = read(folder(tmp_path / "both"), Two(), pytest.fail)
    assert columns.arrays[0].shape == (2, 3, HEIGHT, WIDTH), "the first is the cat's, in colours"
    assert (columns.arrays[1].tolist(), columns.classes) == ([0, 1], ("cat", "dog"))
    (tmp_path / "both/cat/a.PNG").write_bytes((tmp_path / "both/dog/b.png").read_bytes())
    assert read(tmp_path / "both", Two(), pytest.fail).arrays[0].shape == (2, 1, HEIGHT, WIDTH)
    (tmp_path / "both/cat/a.PNG").write_bytes(b"no picture")
    with pytest.raises(FileProblem, match="is damaged or not an image"):
        read(tmp_path / "both", Two(), pytest.fail)
    (tmp_path / "none").mkdir()
    with pytest.raises(FileProblem, match="is empty"):
        read(tmp_path / "none", Two(), pytest.fail)
    (tmp_path / "none/a.png").write_bytes((tmp_path / "both/dog/b.png").read_bytes())
    with pytest.raises(FileProblem, match="is not in a folder of a class"):
        read(tmp_path / "none", Two(), pytest.fail)


def test_train(tmp_path: Path) -> None:
    """A folder of images and a data set train to the bits of their arrays, with validation in the same forms.

    The report has the names of classes, too.
    """
    pytest.importorskip("PIL", reason="Pillow is not installed")
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(3 * HEIGHT * WIDTH, 2))
    images = folder(tmp_path / "images")
    x, y = read(images, module, pytest.fail).arrays
    options = {"batch_size": 2, "epochs": 2, "check_passes": 1}
    twins = [copy.deepcopy(module) for _ in range(2)]
    one = front.train(module, images, "cross_entropy", validation=images, folder=tmp_path / "out", **options)
    assert json.loads((tmp_path / "out/run/report.json").read_text())["classes"] == ["cat", "dog"]
    two = front.train(twins[0], Pairs(torch.from_numpy(x), y), "cross_entropy", validation=(x, y), **options)
    three = front.train(twins[1], (x, y), "cross_entropy", validation=Pairs(torch.from_numpy(x), y), **options)
    assert one.losses == two.losses == three.losses
    assert one.rows == two.rows == three.rows
    assert (one.classes, two.classes, three.classes) == (("cat", "dog"), ("cat", "dog"), ())


TABLE = "kind;a;b;c\ndog;1;2;3\ncat;4;5;6\ndog;7;8;9\ncat;1;1;2\n"


def test_tables(tmp_path: Path) -> None:
    """A table is read by the rule of `fit`: a named column, words as classes, the same ones for validation."""
    torch.manual_seed(0)
    (tmp_path / "data.csv").write_text(TABLE)
    (tmp_path / "held.csv").write_text("c;b;kind;a\n3;2;dog;1\n")
    module, options = Two(), {"batch_size": 2, "check_passes": 1}
    files = {"validation": tmp_path / "held.csv", "target_column": "kind"}
    one = front.train(copy.deepcopy(module), tmp_path / "data.csv", "cross_entropy", **files, **options)
    x = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9], [1, 1, 2]])
    y = torch.tensor([1, 0, 1, 0])
    two = front.train(module, (x, y), "cross_entropy", validation=(x[:1], y[:1]), **options)
    assert (one.losses, one.rows) == (two.losses, two.rows)
    assert (one.classes, one.data.inputs, one.data.target) == (("cat", "dog"), ("a", "b", "c"), "kind")
    assert (one.validation.samples, two.classes, two.data.kind) == (1, (), "arrays")
    with pytest.raises(DatasetMismatch, match="the target column is ambiguous"):
        front.train(module, tmp_path / "data.csv", "cross_entropy", **options)
    (tmp_path / "held.csv").write_text("c;b;kind;a\n3;2;cow;1\n")
    with pytest.raises(FileProblem, match="'cow' is not a class of the samples that are trained"):
        front.train(module, tmp_path / "data.csv", "cross_entropy", **files, **options)
    with pytest.raises(OptionProblem, match="target-column has no effect"):
        front.train(module, (x, y), "cross_entropy", target_column="kind", **options)


def test_whole_numbers_for_floats(tmp_path: Path) -> None:
    """The loss says what a target of whole numbers is."""
    (tmp_path / "data.csv").write_text("a,b,c,y\n1,2,3,4\n5,6,7,8\n")
    one = front.train(nn.Linear(3, 1), tmp_path / "data.csv", "mse", batch_size=2, check_passes=1)
    assert one.verdict == "passed"


@pytest.mark.parametrize("number", [-1, 5])
def test_rows_of_an_embedding(number: int) -> None:
    """A number that is no row is refused by its place, as PyTorch raises IndexError for it."""
    module = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 3))
    ids = torch.tensor([[1, 2], [3, 0], [0, number]])
    with pytest.raises(IndexError):
        module(ids)
    with pytest.raises(DatasetMismatch, match=f"holds index {number}, outside the rows") as caught:
        front.train(module, (ids, torch.tensor([0, 1, 2])), "cross_entropy", batch_size=2)
    facts = dict(caught.value.facts)
    assert (facts["rows"], facts["at"].endswith("[2, 1]")) == ("0 to 4", True)
