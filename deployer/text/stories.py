"""Small stories for children, made from templates: a text to train on that comes with this package."""

from deployer.operators.base.philox import drawn

STREAM = 0x5702
"""The stream of the random words of stories."""
CHOICES = 64
"""Random words of a story; each choice takes one."""


def _words_of(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NAMES = _words_of(
    "Anna Ben Clara David Emil Frida Greta Hugo Ida Jonas Karla Lea Mia Nora Otto Paula Quinn Rosa Sam Tilda "
    "Ulla Viktor Wanda Yara Zoe Bruno Cora Felix Hanna Jakob Kira Leo Marta Nils Olga Peter Ruth Simon Tom Vera"
)
_ANIMALS = _words_of(
    "badger bear beaver bird calf cat cow deer dog donkey duck fox frog goat goose hare hedgehog hen horse kitten "
    "lamb mole mouse otter owl pig pony puppy rabbit robin seal sheep snail squirrel swan turtle wolf"
)
_MOODS = _words_of(
    "brave busy calm careful cheerful clever curious friendly funny gentle happy hungry kind lazy little lonely "
    "merry patient proud quiet sad shy silly sleepy small strong tired wise young"
)
_PLACES = (
    *("in the garden", "by the river", "near the forest", "at the farm", "on the hill", "in the park", "by the sea"),
    *("under the bridge", "behind the barn", "beside the pond", "at the end of the road", "in a small village"),
    *("between two mountains", "next to the old mill", "inside a hollow tree", "across the meadow"),
)
_THINGS = _words_of(
    "apron ball basket bell blanket boat book bottle box bucket button candle coat cup drum feather flower flute hat "
    "kite ladder lamp map mirror mitten necklace pillow ribbon rope scarf shell shoe spoon stone umbrella wagon whistle"
)
_COLOURS = _words_of(
    "blue bright broken brown crooked golden green heavy pink plain purple red round shiny silver soft "
    "striped tiny torn white wooden yellow"
)
_FOODS = (
    *("an apple", "some bread", "a carrot", "some cheese", "a pear", "some soup", "a cake", "some milk", "a plum"),
    *("some honey", "a pancake", "some nuts", "a bowl of rice", "some berries", "a biscuit", "a slice of melon"),
)
_WEATHERS = (
    *("The sun was warm.", "It rained a little.", "The wind was strong.", "The sky was blue.", "It was a cold day."),
    *(
        "Snow lay on every roof.",
        "Thunder rolled far away.",
        "A thick fog hid the path.",
        "The morning smelled of grass.",
    ),
)
_BEGINNINGS = (
    "Once upon a time there was a {mood} {animal} named {name}. {name} lived {place}.",
    "One day {name} the {animal} went for a walk {place}. {weather}",
    "There was a {mood} {animal} {place}. The name of the {animal} was {name}.",
    "{name} was a {mood} {animal}. Every morning {name} played {place}.",
    "Long ago, {place}, a {mood} {animal} called {name} built a house of twigs and leaves. {weather}",
    "{weather} {name} the {animal} woke up early, washed both ears, and ran outside.",
)
_TROUBLES = (
    "{name} had a {colour} {thing}. But the {thing} was gone! {name} looked here and there, and could not find it.",
    '{name} saw a {colour} {thing} in a tree. "I want that {thing}," said {name}, but the tree was too high.',
    '{name} was very hungry. "I want {food}," said {name}. But there was nothing to eat.',
    "A big cloud came, and it was dark. {name} was afraid and wanted to go home.",
    "{name} wanted to play with the {colour} {thing}, but nobody was there to play with.",
    "Suddenly the {colour} {thing} fell into the water and floated away. {name} began to cry.",
    "{name} had promised to bring {food} to grandmother, but the basket was empty and the shop was closed.",
    "A loud noise came from the cellar. {name} took the {colour} {thing} and listened at the door.",
)
_HELPS = (
    'Then {friend} the {other} came. "Can I help you?" asked {friend}. "Yes, please," said {name}.',
    '{name} met {friend} the {other}. {friend} was {mood2} and kind. "Do not cry," said {friend}. "We can do it."',
    '"Hello," said {friend} the {other}. "Why are you sad?" {name} told {friend} everything.',
    "{friend} the {other} heard about it from a neighbour and hurried over with a {colour2} {thing2}.",
    '"If you stop and think," whispered {friend}, a {mood2} {other}, "you will find an answer yourself."',
)
_DEEDS = (
    "They looked under a {colour2} {thing2}, and there it was.",
    "{friend} gave {name} {food}, and they ate it together.",
    "They held hands and went on, step by step, until they saw the house.",
    "{friend} ran up the hill and came back with a {colour2} {thing2}. They laughed and played all day.",
    "With a long stick and a {colour2} {thing2} they made a machine. It creaked, but it worked.",
    "They asked the baker, the miller and the teacher. At last a child showed them where to look.",
    "It took the whole afternoon, and both got dirty paws, yet neither of them gave up.",
)
_ENDS = (
    '{name} was happy. "Thank you, {friend}," said {name}. From that day on they were friends.',
    "In the evening {name} went to bed and dreamed of the {colour2} {thing2}.",
    "{name} learned that it is good to share. The end.",
    '"You are my best friend," said {name}. {friend} smiled.',
    "Since then they meet {place} every Sunday and tell each other what happened.",
    "When the moon rose, {name} and {friend} sat side by side and counted the stars.",
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
