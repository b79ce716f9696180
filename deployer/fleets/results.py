"""Results of a fleet: the table of its rounds, its report and its page."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from deployer.core.safe_text import html_text
from deployer.fitting.history import EpochRow
from deployer.fleets.rounds import RoundRecord
from deployer.reports.facts import RunFacts
from deployer.reports.html import Section, byte_text, definitions, page, table
from deployer.reports.plot import Plot, Vertical, scale_of

SHARE = "accuracy"


@dataclass(frozen=True)
class FleetFacts:
    """Facts of a fleet: its strategy, split, compression and engine, each in words, and the samples of each device."""

    strategy: str
    split: str
    compression: str
    engine: str
    devices: int
    samples: tuple[int, ...]
    validation: int
    library_bytes: int

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each."""
        few, most = min(self.samples), max(self.samples)
        held = f", {self.validation} samples for validation" if self.validation else ""
        return [
            ("Devices", f"{self.devices}, each with {few} to {most} samples and {byte_text(self.library_bytes)}{held}"),
            ("Strategy", self.strategy),
            ("Samples of devices", self.split),
            ("Updates sent", self.compression),
            ("Engine", self.engine),
        ]


@dataclass(frozen=True)
class FleetReport:
    """Content of report.json, for other programs; NaN and infinities are stored as text.

    `epochs` has a row for each round, with the metrics of the global model, as the report of a run has; `rounds` says
    what became of the devices. `digest` is the library's of the final state. `fault` says why the fleet ended before
    its last round, if it did. `seconds` of each round that this process made, `peak_bytes` of this process and
    `peak_worker_bytes` of the largest of its children, are the machine's; all other numbers are the same for any
    engine.
    """

    verdict: str
    fault: str
    about: RunFacts
    fleet: FleetFacts
    digest: str
    best_epoch: int
    epochs: tuple[EpochRow, ...]
    rounds: tuple[RoundRecord, ...]
    bytes_down: int
    bytes_up: int
    seconds: tuple[float, ...] = ()
    peak_bytes: int = 0
    peak_worker_bytes: int = 0


def rounds_csv(rows: Sequence[EpochRow], records: Sequence[RoundRecord]) -> str:
    """The rounds as CSV with a heading, the same for any engine; numbers have the digits that bring them back."""
    names = list(dict.fromkeys(name for row in rows for name in row.named_metrics))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    counts = [
        "asked",
        "replied",
        "late",
        "failed",
        "samples",
        "bytes_down",
        "bytes_up",
        "late_devices",
        "failed_devices",
    ]
    writer.writerow(["round", "passes", "loss", "learning_rate", *names, *counts])
    for row, record in zip(rows, records, strict=True):
        found = row.named_metrics
        metrics = [repr(found[name]) if name in found else "" for name in names]
        numbers = [len(record.asked), len(record.replied), len(record.late), len(record.failed), record.samples]
        numbers += [record.bytes_down, record.bytes_up]
        lists = [" ".join(map(str, devices)) for devices in (record.late, record.failed)]
        writer.writerow([row.epoch, row.passes, repr(row.loss), repr(row.rate), *metrics, *numbers, *lists])
    return text.getvalue()


def fleet_page(report: FleetReport) -> str:
    """The page: curves of loss and metrics, what became of devices, bytes, samples, and the rounds as a table."""
    rows, records = report.epochs, report.rounds
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    sections = list[Section]()
    if rows:
        curves = {"devices": [(float(row.epoch), row.loss) for row in rows]}
        curves |= {"validation": [(float(row.epoch), row.metrics["loss"]) for row in rows]} if "loss" in names else {}
        vertical = scale_of([y for points in curves.values() for _, y in points])
        sections.append(Section("Loss", Plot("loss", "rounds", curves, vertical).html))
    for name in names:
        if name != "loss":
            upright: Vertical = "share" if name.startswith(SHARE) else "zero"
            points = {"validation": [(float(row.epoch), row.metrics[name]) for row in rows]}
            sections.append(Section(name.replace("_", " ").capitalize(), Plot(name, "rounds", points, upright).html))
    if records:
        counts = {
            name: [(float(record.round), float(len(getattr(record, name)))) for record in records]
            for name in ("replied", "late", "failed")
        }
        sections.append(Section("Devices", Plot("devices", "rounds", counts).html))
        sent = {
            "from devices": [(float(record.round), float(record.bytes_up)) for record in records],
            "to devices": [(float(record.round), float(record.bytes_down)) for record in records],
        }
        sections.append(Section("Bytes", Plot("bytes", "rounds", sent).html))
    numbers = sorted(report.fleet.samples, reverse=True)
    points = {"samples": [(float(place), float(count)) for place, count in enumerate(numbers, 1)]}
    sections.append(Section("Samples of devices", Plot("samples", "devices, by their samples", points).html))
    heads = ["round", "loss", *(f"validation {name}" for name in names), "replied", "late", "failed", "from devices"]
    cells = [
        [
            str(row.epoch),
            f"{row.loss:.5g}",
            *(f"{row.metrics[name]:.5g}" if name in row.metrics else "" for name in names),
            f"{len(record.replied)} of {len(record.asked)}",
            str(len(record.late)),
            str(len(record.failed)),
            byte_text(record.bytes_up),
        ]
        for row, record in zip(rows, records, strict=True)
    ]
    sections.append(Section("Rounds", table(heads, cells)))
    facts = [*report.about.rows, *report.fleet.rows, ("Digest", report.digest)]
    fault = f"<p>{html_text(report.fault)}</p>" if report.fault else ""
    verdict = html_text(report.verdict)
    top = f'<h1>{html_text(report.about.model or "Fleet")}: <span class="{verdict}">{verdict}</span></h1>'
    return page(f"Fleet of {report.fleet.devices} devices", f"{top}{definitions(facts)}{fault}", sections)
