"""The checker of words finds headless docstrings, retired identifiers and retired keys, and nothing in the tree."""

import pytest

from DeployTest.support.documents import check_words

pytestmark = [pytest.mark.host]
WORDS = {"visitors": "residents", "simulates": "inherits"}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('"""What a module does."""', 1),
        ('"""Return a value."""\n\n\ndef f():\n    """How it works."""', 1),
        ('"""Whether a value is right."""', 0),
        ('"""Return."""\nx = "What a string"', 0),
    ],
)
def test_headless_docstrings(text: str, count: int) -> None:
    """A docstring may not begin with a relative clause; other strings may."""
    assert len(list(check_words.headless(text))) == count


def test_retired_names() -> None:
    """An identifier is found, a word of a comment or string is not."""
    text = "a = visitors  # visitors\nb = 'visitors'\n"
    assert list(check_words.retired_names(text, WORDS)) == [(1, "visitors is called residents")]


@pytest.mark.parametrize("text", ["Options(old=True)", "a.old", "old: bool", "def f(old): ...", "{'old': 1}"])
def test_retired_fields(text: str) -> None:
    """A field, a parameter and a key are found."""
    assert list(check_words.retired_fields(text, {"old": "new"})) == [(1, "old is called new")]


def test_words_of_fields_are_free_as_other_names() -> None:
    """A module or a function may have the name of a retired field."""
    assert not list(check_words.retired_fields("from a import old\nold()\n", {"old": "new"}))


def test_retired_keys() -> None:
    """A key of a table is found, a word of a value is not."""
    assert list(check_words.retired_keys('simulates = "x"\ny = "simulates = 1"\n', WORDS)) == [
        (1, "simulates is called inherits")
    ]


def test_retired_in_c() -> None:
    """An identifier of C is found with its line; words of comments, over lines too, and of texts are not."""
    text = '/* visitors\n visitors */\nint visitors; /* visitors */ char *a = "\\"visitors";\nint visitors_of;\n'
    assert list(check_words.retired_in_c(text, WORDS)) == [(3, "visitors is called residents")]


def test_tree(capsys: pytest.CaptureFixture[str]) -> None:
    """The tree has none."""
    assert check_words.main() == 0, capsys.readouterr().out
