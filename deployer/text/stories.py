"""Small stories for children, made from templates: a text to train on that comes with this package."""

from deployer.operators.base.philox import drawn

STREAM = 0x5702
"""The stream of the random words of stories."""
CHOICES = 64
"""Random words of a story; each choice takes one."""

_NAMES = ("Anna", "Ben", "Clara", "Emil", "Fred", "Ida", "Jonas", "Lea", "Mia", "Nora", "Otto", "Paula", "Sam", "Tom")
_ANIMALS = ("cat", "dog", "duck", "fox", "frog", "hen", "mouse", "owl", "pig", "rabbit", "sheep", "turtle")
_MOODS = ("brave", "curious", "funny", "gentle", "happy", "hungry", "little", "quiet", "sad", "shy", "sleepy", "small")
_PLACES = (
    "in the garden",
    "by the river",
    "near the forest",
    "at the farm",
    "on the hill",
    "in the park",
    "by the sea",
)
_THINGS = ("ball", "boat", "book", "drum", "hat", "kite", "lamp", "spoon", "stone", "wagon", "shell", "basket")
_COLOURS = ("blue", "brown", "green", "old", "red", "round", "shiny", "soft", "tiny", "white", "yellow")
_FOODS = ("an apple", "some bread", "a carrot", "some cheese", "a pear", "some soup", "a cake", "some milk")
_WEATHERS = (
    "The sun was warm.",
    "It rained a little.",
    "The wind was strong.",
    "The sky was blue.",
    "It was a cold day.",
)
_BEGINNINGS = (
    "Once upon a time there was a {mood} {animal} named {name}. {name} lived {place}.",
    "One day {name} the {animal} went for a walk {place}. {weather}",
    "There was a {mood} {animal} {place}. The name of the {animal} was {name}.",
    "{name} was a {mood} {animal}. Every morning {name} played {place}.",
)
_TROUBLES = (
    "{name} had a {colour} {thing}. But the {thing} was gone! {name} looked here and there, and could not find it.",
    '{name} saw a {colour} {thing} in a tree. "I want that {thing}," said {name}, but the tree was too high.',
    '{name} was very hungry. "I want {food}," said {name}. But there was nothing to eat.',
    "A big cloud came, and it was dark. {name} was afraid and wanted to go home.",
    "{name} wanted to play with the {colour} {thing}, but nobody was there to play with.",
)
_HELPS = (
    'Then {friend} the {other} came. "Can I help you?" asked {friend}. "Yes, please," said {name}.',
    '{name} met {friend} the {other}. {friend} was {mood2} and kind. "Do not cry," said {friend}. "We can do it."',
    '"Hello," said {friend} the {other}. "Why are you sad?" {name} told {friend} everything.',
)
_DEEDS = (
    "They looked under a {colour2} {thing2}, and there it was.",
    "{friend} gave {name} {food}, and they ate it together.",
    "They held hands and went on, step by step, until they saw the house.",
    "{friend} ran up the hill and came back with a {colour2} {thing2}. They laughed and played all day.",
)
_ENDS = (
    '{name} was happy. "Thank you, {friend}," said {name}. From that day on they were friends.',
    "In the evening {name} went to bed and dreamed of the {colour2} {thing2}.",
    "{name} learned that it is good to share. The end.",
    '"You are my best friend," said {name}. {friend} smiled.',
)
_WORDS = {
    **{"name": _NAMES, "friend": _NAMES, "animal": _ANIMALS, "other": _ANIMALS, "mood": _MOODS, "mood2": _MOODS},
    **{"place": _PLACES, "weather": _WEATHERS, "thing": _THINGS, "thing2": _THINGS, "food": _FOODS},
    **{"colour": _COLOURS, "colour2": _COLOURS},
}
_PAIRS = (("name", "friend"), ("animal", "other"), ("thing", "thing2"), ("colour", "colour2"))
"""Words of one list that differ within a story."""


def stories(count: int, seed: int = 0) -> list[str]:
    """`count` stories of about 400 bytes; story i follows from seed and i alone, and is the same on every machine."""
    return [_story(seed, number) for number in range(count)]


def _story(seed: int, number: int) -> str:
    words = iter(drawn(seed, STREAM, number, CHOICES).tolist())
    chosen = {name: options[next(words) % len(options)] for name, options in _WORDS.items()}
    for first, second in _PAIRS:
        options = _WORDS[first]
        at = options.index(chosen[first]) + 1 + next(words) % (len(options) - 1)
        chosen[second] = options[at % len(options)]
    parts = [options[next(words) % len(options)] for options in (_BEGINNINGS, _TROUBLES, _HELPS, _DEEDS, _ENDS)]
    return " ".join(part.format_map(chosen) for part in parts) + "\n"
