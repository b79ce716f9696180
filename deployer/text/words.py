"""The words of a text, within which byte pairs are merged.

A byte is a letter (A to Z, a to z, and all from 0x80 on, of which UTF-8 makes every character beyond ASCII), a digit, a
space (blank, tab, line feed, vertical tab, form feed, carriage return), or another. A word is a run of letters, of
digits or of others, with the one blank before it, if there is one, or a run of spaces without that blank. The words of
a text are its bytes, in order, so nothing is lost. The rule needs no table, knows no Unicode and looks one byte ahead,
so a microcontroller can follow it; `templates/firmware/tokenizer.c.mako` is the same in C, and `foreign.toml` a regular
expression over characters.
"""

import re

CLASSES = "classes"
"""The name of this rule in files."""
_WORD = re.compile(
    rb" ?[A-Za-z\x80-\xff]+| ?[0-9]+| ?[^A-Za-z0-9\x80-\xff \t-\r]+|[ \t-\r]+(?= [^ \t-\r])|[ \t-\r]+", re.DOTALL
)


def words_of(text: bytes) -> list[bytes]:
    """The words of a text, in order; joined they are the text."""
    return _WORD.findall(text)
