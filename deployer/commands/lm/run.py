"""The actions of `deployer lm`: they read options, call `deployer.lm`, and show what it gives."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deployer.commands import ending
from deployer.commands.fit import options_of, run_of, share_of, shown_run, task_of, tell
from deployer.commands.lm.package import package
from deployer.core.errors import FileProblem, OptionProblem
from deployer.core.files.reading import read_json
from deployer.core.safe_text import escaped
from deployer.fitting.progress import ProgressBar
from deployer.lm import evaluation, folder
from deployer.lm.adapters.low_rank import LowRank
from deployer.lm.architecture import read_setting
from deployer.lm.decoder import CHUNK, Decoder
from deployer.lm.defaults import PRESET
from deployer.lm.presets import preset
from deployer.lm.rows import TextRows, read_rows, split_rows
from deployer.lm.training import train_model
from deployer.running.output import replace_file
from deployer.running.terminal import Terminal
from deployer.text.sampling import Sampler
from deployer.text.stories import stories


def make(a: argparse.Namespace, console: Terminal) -> int:
    """Make the folder of a model."""
    fields: dict[str, Any] = preset(a.preset or PRESET) if a.preset or not a.architecture else {}
    if a.architecture:
        given = read_json(a.architecture, "an architecture as an object of JSON", "an object with a member per field")
        if not isinstance(given, dict):
            raise FileProblem(f"{a.architecture} is no object", hint='fields by name, such as {"dim": 64}')
        fields |= given
    fields |= dict(map(read_setting, a.set))
    made = folder.new_model(a.folder, fields, folder.chosen_tokenizer(a.tokenizer), a.seed, a.force)
    facts = made.architecture.facts
    console.lines(f"{a.folder}: {facts['parameters']} parameters, {facts['weight_bytes']} B of weights")
    console.lines(f"cache of a sequence of {made.architecture.context} tokens: {facts['cache_bytes']} B")
    console.lines(
        f"floating-point operations per token: {facts['forward_flops_per_token']} forward,"
        f" {facts['training_flops_per_token']} in training"
    )
    console.event("end", {"output": str(a.folder), "architecture": made.architecture.record, **facts})
    return 0


def _rows(a: argparse.Namespace, model: folder.LanguageModel, text: Path) -> TextRows:
    """The rows of a text."""
    return read_rows(text, model.tokenizer, model.architecture, a.separator)


def _trained_and_held_out(a: argparse.Namespace, model: folder.LanguageModel) -> tuple[TextRows, TextRows | None]:
    """The rows to train on, and those of the validation: of the text's last documents, or of a text of its own."""
    share = share_of(a.validation)
    if share is not None:
        return split_rows(a.text, share, model.tokenizer, model.architecture, a.separator)
    return _rows(a, model, a.text), _rows(a, model, Path(a.validation)) if a.validation is not None else None


def train(a: argparse.Namespace, console: Terminal) -> int:
    """Train a model in its folder; 1 where the verdict is failed."""
    model = folder.read_model(a.folder)
    rows, held_out = _trained_and_held_out(a, model)
    a.output = a.folder / "run"
    console.lines(f"{a.text}: {rows.size} B, {len(rows.ids)} sequences of {model.architecture.context} tokens")
    if held_out:
        console.lines(f"validation: {held_out.size} B, {len(held_out.ids)} sequences")
    with shown_run(a, console, ProgressBar) as shown:
        fitted = train_model(
            model,
            rows.samples,
            task_of(a),
            run_of(a, held_out.samples if held_out else None),
            options=options_of(a),
            title=str(a.text),
            command=a.command_line,
            force=a.force,
            adapters=_adapters(a),
            kept=a.adapter,
            callback=shown,
            warn=lambda warning: ending.tell(str(warning)),
        )
    trained = {"trained": sum(array.size for array in fitted.weights.values())}
    first, last = fitted.losses[0], fitted.losses[-1]
    console.lines(
        f"{trained['trained']} parameters trained, loss {first:.4f} -> {last:.4f} in {len(fitted.losses)} passes"
    )
    tell(a, fitted, console, {**trained, "first_loss": first, "last_loss": last})
    return int(fitted.verdict == "failed")


def _adapters(a: argparse.Namespace) -> LowRank | None:
    """The adapters of the command line; OptionProblem for numbers of adapters that there are not."""
    for name in () if a.lora else ("lora_rank", "lora_alpha", "lora_dropout", "adapter"):
        if name in a.given:
            raise OptionProblem(f"--{name.replace('_', '-')} has no effect here", hint="add --lora")
    alpha = float(a.lora_rank) if a.lora_alpha is None else a.lora_alpha
    return LowRank(a.lora, a.lora_rank, alpha, a.lora_dropout) if a.lora else None


def evaluate(a: argparse.Namespace, console: Terminal) -> int:
    """Print loss, perplexity and bits per byte of a text."""
    model = folder.read_model(a.folder, a.adapter)
    rows = _rows(a, model, a.text)
    batch = min(a.batch_size, len(rows.ids))
    with console.status("graphs") as status, evaluation.scores_of(model, batch, status.update) as scores:
        status.update("run")
        found = evaluation.text_loss(scores, rows, batch)
    console.lines(
        f"loss {found.loss:.4f}, perplexity {found.perplexity:.4g}, {found.bits_per_byte:.4f} bits per byte:"
        f" {found.tokens} tokens, {found.bytes} B"
    )
    console.event("end", {"text": str(a.text), **found.record})
    return 0


def generate(a: argparse.Namespace, console: Terminal) -> int:
    """Print a text that goes on from the prompt."""
    sampler = Sampler(a.temperature, a.top_k or 0, a.top_p, a.seed)
    model = folder.read_model(a.folder, a.adapter)
    tokenizer, context = model.tokenizer, model.architecture.context
    ids = [tokenizer.end, *tokenizer.encode(a.prompt)]
    with console.status("graphs"):
        decoder = Decoder(model.architecture, model.weights, chunk=min(CHUNK, context), adapters=model.adapters)
        found = list(evaluation.continuation(decoder, ids, a.tokens, tokenizer.end, sampler))
    text = tokenizer.decode(found).decode(errors="replace")
    console.lines(_printable(a.prompt + text))
    console.event("end", {"prompt": a.prompt, "text": text, "ids": found})
    return 0


def _printable(text: str) -> str:
    """The text without characters that command a terminal; ends of lines stay."""
    return "\n".join(escaped(line) for line in re.split(r"\r?\n", text))


def write_stories(a: argparse.Namespace, console: Terminal) -> int:
    """Write the text that comes with this package."""
    if a.folder.exists() and not a.force:
        raise OptionProblem(f"{a.folder} exists", hint="another file, or --force to overwrite it")
    content = "\n".join(stories(a.count, a.seed)).encode()
    replace_file(a.folder, content)
    console.lines(f"{a.folder}: {a.count} stories, {len(content)} B")
    console.event("end", {"output": str(a.folder), "stories": a.count, "bytes": len(content)})
    return 0


ACTIONS: dict[str, Callable[[argparse.Namespace, Terminal], int]] = {
    "new": make,
    "train": train,
    "eval": evaluate,
    "generate": generate,
    "package": package,
    "stories": write_stories,
}
"""The actions by name."""
