"""Options of `deployer lm`; nothing heavy is loaded for them."""

import argparse
from collections.abc import Callable
from typing import Any

from deployer.commands.fit_options import add_length_options, add_machine_options
from deployer.commands.lazy_parser import LazyParser
from deployer.commands.values import finite, path, positive, seed
from deployer.lm.defaults import BATCH, EXAMPLE, GENERATED, LOSS, OPTIMIZER, PRESET, RANK, RATE, STORIES
from deployer.lm.presets import preset_names

TEXT = "text file, whose documents end at blank lines, or folder of .txt files, a document each"
FIXED = {
    "loss": LOSS,
    "class_weights": (),
    "init": "",
    "parameters": None,
    "axis": (),
    "dropout": "on",
    "class_balanced": False,
    "drop_last": False,
    "validation_target": None,
}
"""Arguments of `deployer fit` that a language model leaves no choice of."""


def add_lm_options(
    commands: "argparse._SubParsersAction[LazyParser]", add_update_options: Callable[[LazyParser, str, float], None]
) -> None:
    """Add the command and its actions; `add_update_options` adds those of optimizers to a parser."""
    text = "make, train, evaluate and run a small language model"
    group = commands.add_parser("lm", help=text, description=text)
    actions = group.add_subparsers(dest="action", required=True, metavar="action")
    _add_new(actions)
    _add_train(actions, add_update_options)
    text = "loss, perplexity and bits per byte of a text"
    p = _added(actions, "eval", text)
    _add_adapter(p)
    p.add_argument("--text", type=path, required=True, metavar="FILE|DIR", help=TEXT)
    p.add_argument(
        "--batch-size", type=positive, default=BATCH, metavar="N", help=f"sequences of a pass (default {BATCH})"
    )
    _add_separator(p)
    text = "continue a text, one token after the other"
    p = _added(actions, "generate", text)
    _add_adapter(p)
    p.add_argument("--prompt", default="", metavar="TEXT", help="begin of the text (default: that of a document)")
    p.add_argument(
        "--tokens", type=positive, default=GENERATED, metavar="N", help=f"most tokens to add (default {GENERATED})"
    )
    _add_sampling(p)
    _add_package(actions)
    text = "write small stories, a text to train on that comes with this package"
    p = _added(actions, "stories", text, "FILE.txt")
    p.add_argument("--count", type=positive, default=STORIES, metavar="N", help=f"stories (default {STORIES})")
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed of the stories (default 0)")
    p.add_argument("--force", action="store_true", help="overwrite the file")


def _added(actions: Any, name: str, text: str, place: str = "FOLDER") -> LazyParser:
    p: LazyParser = actions.add_parser(name, help=text, description=text)
    what = "folder of the language model" if place == "FOLDER" else "output file"
    p.add_argument("folder", type=path, metavar=place, help=what)
    return p


def _add_new(actions: Any) -> None:
    text = "make a folder with an architecture, a tokenizer and initial weights"
    p = _added(actions, "new", text)
    text = f"architecture to begin with (default {PRESET} without --architecture): one of %(choices)s"
    p.add_argument("--preset", choices=preset_names(), default="", metavar="NAME", help=text)
    text = "fields of the architecture as an object of JSON; overrule those of --preset"
    p.add_argument("--architecture", type=path, metavar="FILE.json", help=text)
    text = "a field of the architecture, such as dim=96; may be repeated; overrules --preset and --architecture"
    p.add_argument("-s", "--set", action="append", default=[], metavar="NAME=VALUE", help=text)
    text = "bytes, or the file of a tokenizer (default bytes)"
    p.add_argument("--tokenizer", default="bytes", metavar="bytes|FILE", help=text)
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed of the initial weights (default 0)")
    p.add_argument("--force", action="store_true", help="overwrite the files of the folder")


def _add_train(actions: Any, add_update_options: Callable[[LazyParser, str, float], None]) -> None:
    text = "train a language model on a text, with validation, checkpoints and a report"
    p = _added(actions, "train", text)
    data = p.add_argument_group("data")
    data.add_argument("--text", type=path, required=True, metavar="FILE|DIR", help=TEXT)
    _add_separator(data)
    text = "validation set: a fraction of the text's documents, the last ones, or a text of its own (default: none)"
    data.add_argument("--validation", metavar="FRACTION|FILE|DIR", help=text)
    data.add_argument(
        "--batch-size", type=positive, default=BATCH, metavar="N", help=f"sequences of a pass (default {BATCH})"
    )
    data.add_argument("--no-shuffle", action="store_true", help="keep the order of the sequences in every epoch")
    text = "random seed of shuffling, new adapters and their dropout (default 0)"
    data.add_argument("--seed", type=seed, default=0, metavar="N", help=text)
    trainable = "train only the parameters whose names REGEX matches (default: all)"
    data.add_argument("--trainable", default="", metavar="REGEX", help=trainable)
    lora = p.add_argument_group("adapters of low rank")
    text = "train adapters beside the linear layers whose names REGEX matches, and add them to the weights (LoRA)"
    lora.add_argument("--lora", default="", metavar="REGEX", help=f"{text}, such as q_proj|v_proj")
    text = f"rank of the adapters (default {RANK})"
    lora.add_argument("--lora-rank", type=positive, default=RANK, metavar="N", help=text)
    text = "factor of the adapters' products, over the rank (default: the rank)"
    lora.add_argument("--lora-alpha", type=finite, metavar="X", help=text)
    text = "share of an adapter's inputs that is dropped in training, from 0 to below 1 (default 0)"
    lora.add_argument("--lora-dropout", type=finite, default=0.0, metavar="P", help=text)
    text = "write the adapters to this folder, as PEFT does, instead of adding them to the weights"
    lora.add_argument("--adapter", type=path, metavar="DIR", help=text)
    add_update_options(p, OPTIMIZER, RATE)
    add_length_options(p)
    add_machine_options(p)
    p.add_argument("--force", action="store_true", help="overwrite files in the folder that other programs changed")
    p.set_defaults(**FIXED)


def _add_package(actions: Any) -> None:
    text = "write the model as a library of C that reads and continues texts, and with --train learns from them"
    p = _added(actions, "package", text)
    p.add_argument("-o", "--output", type=path, required=True, metavar="DIR", help="folder of the library")
    text = "name of the library and prefix of its symbols: a-z, 0-9, single underscores"
    p.add_argument("--name", required=True, help=text)
    p.add_argument("--train", action="store_true", help="go on with the training of the folder's last run as well")
    text = "adapter of low rank, whose weights a program of the library may replace (default: none)"
    p.add_argument("--adapter", type=path, metavar="DIR", help=text)
    text = "with --train: begin with an empty state of the optimizer, which needs less flash"
    p.add_argument("--reset-optimizer", action="store_true", help=text)
    text = "tokens of a prompt that are read at once, by a program beside that of one token: more need more memory"
    text += ", and read the weights fewer times (default 1)"
    p.add_argument("--chunk", type=positive, default=1, metavar="N", help=text)
    text = "texts that are read at the same time, each with a cache of its own (default 1)"
    p.add_argument("--sequences", type=positive, default=1, metavar="N", help=text)
    text = "text that the library's example goes on with (default: the begin of a document)"
    p.add_argument("--prompt", default="", metavar="TEXT", help=text)
    p.add_argument(
        "--tokens", type=positive, default=EXAMPLE, metavar="N", help=f"most tokens of the example (default {EXAMPLE})"
    )
    text = "also compile for this core of cores.toml, such as cortex-m4; the manifest then has its code and stack"
    p.add_argument("--core", default="", metavar="NAME", help=text)
    text = "do not test-compile the library with the host compiler (CC or gcc)"
    p.add_argument("--no-compile", dest="compile", action="store_false", help=text)
    p.add_argument("--force", action="store_true", help="overwrite files in the folder that other programs changed")


def _add_adapter(p: LazyParser) -> None:
    text = "adapter of low rank that is added to the model, from a folder with the files of PEFT (default: none)"
    p.add_argument("--adapter", type=path, metavar="DIR", help=text)


def _add_separator(p: "argparse._ActionsContainer") -> None:
    text = "text between documents of a file, such as <|endoftext|> (default: blank lines)"
    p.add_argument("--separator", metavar="TEXT", help=text)


def _add_sampling(p: LazyParser) -> None:
    text = "divide the scores by X before a token is drawn; 0 takes the most likely one (default 1)"
    p.add_argument("--temperature", type=finite, default=1.0, metavar="X", help=text)
    p.add_argument("--top-k", type=positive, metavar="K", help="draw among the K most likely tokens (default: all)")
    text = "draw among the fewest tokens that have this share of the probability (default 1: all)"
    p.add_argument("--top-p", type=finite, default=1.0, metavar="X", help=text)
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed of the draws (default 0)")
