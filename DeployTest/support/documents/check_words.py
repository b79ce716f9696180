"""Checks the words of the code: docstrings begin with a verb or a noun phrase, and retired identifiers stay away.

Run as `python -m DeployTest.support.documents.check_words`, which `make check` does; exit code 1 where one is found.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HEADLESS = re.compile(r"(What|How|Where|Which|Who|When)\b")
BEGINS = re.compile(rf"[\"']\s*{HEADLESS.pattern}")
"""A string that could be such a docstring."""
C = (".c", ".h", ".mako")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def retired(table: str = "retired") -> Mapping[str, str]:
    """Retired identifiers and keys, of Python, of its fields or of C, with their replacements."""
    words: dict[str, str] = tomllib.loads(Path(__file__).with_name("retired.toml").read_text())[table]
    return words


def headless(text: str) -> Iterator[tuple[int, str]]:
    """Lines of docstrings that begin with a relative clause, and what to do."""
    if not BEGINS.search(text):
        return  # parsing takes most of the time
    for node in ast.walk(ast.parse(text)):
        note = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
        if note and HEADLESS.match(note):
            line = getattr(node, "lineno", 1)
            yield line, f"the docstring begins with {note.split()[0]!r}: begin with a verb or a noun phrase"


def retired_names(text: str, words: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Lines of Python with retired identifiers, and the words that stand for them now."""
    if not words.keys() & set(re.findall(r"\w+", text)):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string in words:
            yield token.start[0], f"{token.string} is called {words[token.string]}"


def retired_fields(text: str, words: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Lines of Python with retired names of fields, parameters and keys, whose words are free as other names."""
    for node in ast.walk(ast.parse(text)):
        names: list[object] = []
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.keyword | ast.arg):
            names = [node.arg]
        elif isinstance(node, ast.AnnAssign):
            names = [node.target.id if isinstance(node.target, ast.Name) else None]
        elif isinstance(node, ast.Dict):
            names = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        for name in names:
            if isinstance(name, str) and name in words:
                yield getattr(node, "lineno", 1), f"{name} is called {words[name]}"


def retired_keys(text: str, words: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Lines of TOML with retired keys, and the words that stand for them now."""
    for number, line in enumerate(text.splitlines(), 1):
        key = re.match(r"\s*\[*([\w.-]+)\]*\s*(=|$)", line)
        name = key[1].rpartition(".")[2] if key else ""
        if name in words:
            yield number, f"{name} is called {words[name]}"


def retired_in_c(text: str, words: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Lines of C, or of its templates, with retired identifiers outside of comments and texts."""
    code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    for number, line in enumerate(code.splitlines(), 1):
        for name in re.findall(r"[A-Za-z_]\w*", line):
            if name in words:
                yield number, f"{name} is called {words[name]}"


def findings(paths: list[Path]) -> Iterator[str]:
    """All findings in files, as `file:line: text`."""
    words, fields, words_of_c = retired(), retired("fields"), retired("c")
    for path in paths:
        text = path.read_text()
        if path.suffix in C:
            found = [*retired_in_c(text, words_of_c)]
        elif path.suffix == ".py":
            found = [*headless(text), *retired_names(text, words), *retired_fields(text, fields)]
        else:
            found = [*retired_keys(text, words)]
        yield from (f"{path.relative_to(ROOT)}:{line}: {said}" for line, said in sorted(found))


def main() -> int:
    """Print the findings of all tracked files; 1 where there are any."""
    words = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.toml"]
    words += [f"*{suffix}" for suffix in C]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [ROOT / name for name in listed if (ROOT / name).is_file() and Path(name).name != "retired.toml"]
    found = list(findings(paths))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
