"""Pages of the documentation with a part that a command writes, between two marks."""

from pathlib import Path


def renew(page: Path, marks: tuple[str, str], content: str) -> None:
    """Write the content between the marks; ValueError, and nothing written, unless the page has each of them once."""
    begin, end = marks
    text = page.read_text()
    before, rest = text.split(begin)
    _, after = rest.split(end)
    page.write_text(f"{before}{begin}\n{content.strip()}\n{end}{after}")


def generated(page: Path, marks: tuple[str, str]) -> str:
    """Return the text between the marks."""
    begin, end = marks
    return page.read_text().split(begin)[1].split(end)[0].strip()
