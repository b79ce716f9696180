"""Options of `deployer state`; nothing heavy is loaded for them."""

import argparse
from typing import Any

from deployer.commands.values import path

WAYS = ("show", "export", "import")
"""What may be done with an image."""
HELD = ("weights", "state", "changes")
"""What an image that is made may hold."""


def add_state_options(commands: "argparse._SubParsersAction[Any]") -> None:
    """The command for images that libraries save, and dumps of flash with them."""
    text = "show what a library saved, export it to npz or ONNX, or import it from there"
    p = commands.add_parser("state", help=text, description=text)
    p.add_argument("way", choices=WAYS, metavar="show|export|import", help="what to do with the file")
    text = "an image or a dump of flash; for import, arrays by name: .npz, .safetensors, or a model .onnx"
    p.add_argument("file", type=path, metavar="FILE", help=text)
    text = "folder of the library, which says what the tensors are (default: the file's folder)"
    p.add_argument("--library", type=path, metavar="DIR", help=text)
    text = "the file to write: of export .npz, or .onnx with --model; of import an image, as load takes it"
    p.add_argument("-o", "--output", type=path, metavar="FILE", help=text)
    p.add_argument("--model", type=path, metavar="model.onnx", help="the forward model whose weights export replaces")
    text = "what the image of import holds: one of %(choices)s (default: weights)"
    p.add_argument("--kind", choices=HELD, metavar="KIND", help=text)
    p.add_argument("--force", action="store_true", help="overwrite the file, where it is there")
