"""Options of `deployer state`; nothing heavy is loaded for them."""

import argparse
from typing import Any

from deployer.commands.values import path

ACTIONS = ("show", "export", "import")
"""Actions on a state image."""
HELD = ("weights", "state", "changes")
"""Contents of an image that import creates."""


def add_state_options(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the command for state images and flash dumps of libraries."""
    text = "show a saved state image of a library, export it to npz or ONNX, or create one from weights"
    p = commands.add_parser("state", help=text, description=text)
    p.add_argument("action", choices=ACTIONS, metavar="show|export|import", help="action on the file")
    text = "state image or flash dump; for import, arrays by name (.npz, .safetensors) or a model (.onnx)"
    p.add_argument("file", type=path, metavar="FILE", help=text)
    text = "folder of the library, whose manifest describes the tensors (default: the file's folder)"
    p.add_argument("--library", type=path, metavar="DIR", help=text)
    text = "output file: .npz, or .onnx with --model, for export; a state image for import"
    p.add_argument("-o", "--output", type=path, metavar="FILE", help=text)
    p.add_argument("--model", type=path, metavar="model.onnx", help="forward model whose weights export replaces")
    text = "content of the imported image: one of %(choices)s (default: weights)"
    p.add_argument("--kind", choices=HELD, metavar="KIND", help=text)
    p.add_argument("--force", action="store_true", help="overwrite the output file")
