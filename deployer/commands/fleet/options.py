"""Options of `deployer fleet`; nothing heavy is loaded for them."""

import argparse

from deployer.commands.run_options import add_output
from deployer.commands.values import finite, positive, seed
from deployer.commands.values import path as path_of
from deployer.fleets.options import BACKENDS, COMPRESSIONS, SPLITS, STRATEGIES


def add_fleet_options(p: argparse.ArgumentParser) -> None:
    """Data and its split, rounds, strategy, what is sent, faults, and where devices run."""
    data = p.add_argument_group("data")
    text = "samples, as `deployer fit` reads them; with --split files a folder with an .npz for each device"
    data.add_argument("--data", type=path_of, required=True, metavar="FILE|FOLDER", help=text)
    text = "validation set of the global model: a fraction of the samples, or separate samples (default: none)"
    data.add_argument("--validation", metavar="FRACTION|FILE|FOLDER", help=text)
    data.add_argument("--devices", type=positive, metavar="N", help="number of devices (with --split files: its files)")
    text = (
        "samples of each device: at random, with drawn shares of each class, some shards of the sorted labels, or one"
    )
    text += " file for each (default iid)"
    data.add_argument("--split", choices=SPLITS, default=SPLITS[0], help=text)
    text = "with --split dirichlet: concentration of the drawn shares; less is less equal (default 0.5)"
    data.add_argument("--concentration", type=finite, metavar="X", help=text)
    text = "with --split shards: shards of each device, so about as many labels (default 2)"
    data.add_argument("--shards", type=positive, metavar="N", help=text)
    text = "random seed of split, shuffling, asked devices, drawn faults, --init and dropout (default 0)"
    data.add_argument("--seed", type=seed, default=0, metavar="N", help=text)
    data.add_argument("--no-shuffle", action="store_true", help="keep the order of a device's samples in every epoch")
    rounds = p.add_argument_group("rounds")
    rounds.add_argument("--rounds", type=positive, default=1, metavar="N", help="number of rounds (default 1)")
    text = "passes over a device's samples in a round (default 1)"
    rounds.add_argument("--epochs", type=positive, default=1, metavar="N", help=text)
    text = "gradient accumulation on a device: passes per update (default 1)"
    rounds.add_argument("--accumulate-grad-batches", type=positive, default=1, metavar="N", help=text)
    text = "devices that a round asks, drawn by the seed (default: all)"
    rounds.add_argument("--per-round", type=positive, default=0, metavar="N", help=text)
    text = "fewest replies of a round; with fewer the fleet ends, with exit code 2 (default: of all that are asked)"
    rounds.add_argument("--min-replies", type=positive, default=0, metavar="N", help=text)
    text = "seconds until a round takes no more replies (default: none); times differ from run to run"
    rounds.add_argument("--deadline", type=finite, metavar="SECONDS", help=text)
    for name, what in (("late", "late"), ("failing", "failing"), ("killed", "killed, with their process,")):
        text = f"share of devices that a draw by the seed makes {what} in each round (default 0)"
        rounds.add_argument(f"--{name}", type=finite, default=0.0, metavar="SHARE", help=text)
    rounds.add_argument("--resume", action="store_true", help="resume from the checkpoint in the output folder")
    server = p.add_argument_group("strategy")
    text = "how replies become the global model; gradients: one pass of each device, and one update by their sum"
    server.add_argument("--strategy", choices=STRATEGIES, default=STRATEGIES[0], help=f"{text} (default fedavg)")
    text = "weight of the proximal term mu/2 |w - w0|^2 of fedprox, whose gradient is added before each update"
    server.add_argument("--mu", type=finite, metavar="X", help=text)
    text = "learning rate of the server, of fedavgm and fedadam (default: 1 and 0.01)"
    server.add_argument("--server-lr", type=finite, metavar="X", help=text)
    text = "share of the last step that fedavgm keeps, and beta1 of fedadam (default 0.9)"
    server.add_argument("--server-beta1", type=finite, metavar="X", help=text)
    server.add_argument("--server-beta2", type=finite, metavar="X", help="beta2 of fedadam (default 0.99)")
    text = "what fedadam adds to the root of its second moment (default 0.001)"
    server.add_argument("--server-epsilon", type=finite, metavar="X", help=text)
    sent = p.add_argument_group("what devices send")
    text = "changes of weights as numbers of 8 bits, or their largest elements; what that leaves out is added to the"
    text += " device's next update (default: weights in float32)"
    sent.add_argument("--compress", choices=COMPRESSIONS, default=COMPRESSIONS[0], help=text)
    text = "with --compress topk: share of the elements of each tensor that are sent (default 0.01)"
    sent.add_argument("--top-share", type=finite, metavar="X", help=text)
    machine = p.add_argument_group("where devices run")
    text = "threads, processes or Ray's actors under Flower, or one after another without Flower (default threads)"
    machine.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0], help=text)
    machine.add_argument("--workers", type=positive, default=1, metavar="N", help="devices at a time (default 1)")
    add_output(p, "output folder of trained weights, the checkpoint, rounds.csv, report.json and fleet.html", True)
