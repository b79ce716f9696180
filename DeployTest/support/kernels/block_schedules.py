"""Schedules of taps of blocks of sums, for conv_fours.h and conv_taps.h; tap_schedules.py prints their macros.

A block has four channels m by four outputs p. Loads lie between the sums, so that no value is used right after its load
and two cores that share an FPU meet it in turn.
"""

from collections.abc import Iterator, Sequence

FOUR = range(4)
CHANNEL_STEPS = [f'ADD("t{m}", "%[w_h]")' for m in FOUR]
ROW_STEP = 'ADD("t4", "%[x_h]")'
MOST_SHARED = 5
"""Largest number of taps of a row of four sums that is code without a loop."""
Block = list[tuple[int, int]]
Macro = tuple[str, str, list[str]]


def woven(others: Sequence[str], sums: Sequence[str], groups: Sequence[int], lead: int = 0) -> list[str]:
    """Sums with other instructions between them: `lead` sums, then behind each other one as many as `groups` says.

    An empty other one is left out, but not its place; sums that are left over follow the last one.
    """
    left, found = list(sums[lead:]), list(sums[:lead])
    for other, count in zip(others, groups, strict=True):
        found += [*([other] if other else []), *left[:count]]
        del left[:count]
    return [*found, *left]


def sums_of(block: Block, weight: int, values: Sequence[int]) -> list[str]:
    """The sums of a block in this order, with weights from register `weight` on and each output's value."""
    return [f"SUM({m}, {p}, {weight + m}, {values[p]})" for m, p in block]


def by_channel(outputs: Sequence[int] = FOUR) -> Block:
    """All sums, channel by channel."""
    return [(m, p) for m in FOUR for p in outputs]


def first_tap(outputs: Sequence[int], wide: bool, later: Sequence[str], behind: Sequence[int]) -> list[str]:
    """The first tap of these outputs: values and weights arrive in turn, and each sum follows when it has both.

    `later` prepares what follows; `behind` is how many sums follow each of the last loads of this tap and of `later`.
    """
    values = [f"WIDE({2 * p}, {p})" if wide else f"VALUE({p})" for p in outputs]
    weights = [f"EVEN({m}, 0)" for m in FOUR]
    arriving = [x for pair in zip(values, weights, strict=False) for x in pair] + weights[len(values) :]
    at = {word: place for place, word in enumerate(arriving)}

    def ready(pair: tuple[int, int]) -> tuple[int, int, int]:
        m, p = pair
        return max(at[weights[m]], at[values[outputs.index(p)]]), m, p

    sums = sums_of(sorted(by_channel(outputs), key=ready), 0, FOUR)
    return woven([*arriving, *later], sums, [0, 0, 1, 1, 2, 2, *behind])


def second_tap(last_value: bool) -> list[str]:
    """The second of three taps, which loads the weights of the third and, unless none follows, the last value."""
    others = ["ODD(2, 1, 6)", "ODD(3, 1, 7)", "EVEN(0, 2)", "EVEN(1, 2)", "VALUE(5)" if last_value else ""]
    return woven([*others, "EVEN(2, 2)", "EVEN(3, 2)", ROW_STEP], sums_of(by_channel(), 4, range(1, 5)), [2] * 8, 1)


def second_of_two() -> list[str]:
    """The second of two taps that lie two apart."""
    others = ["ODD(2, 2, 6)", "ODD(3, 2, 7)", *CHANNEL_STEPS, ROW_STEP]
    return woven(others, sums_of(by_channel(), 4, range(1, 5)), [2] * 7, 1)


def second_wide() -> list[str]:
    """The second tap of a window that moves by two."""
    block = [(m, p) for m in (0, 1) for p in (0, 1)]
    block += [(m, p) for p in (2, 3) for m in (0, 1)] + [(m, p) for m in (2, 3) for p in FOUR]
    others = ["WIDE(5, 6)", "ODD(2, 1, 6)", "WIDE(7, 7)", "ODD(3, 1, 7)", "EVEN(0, 2)", "EVEN(1, 2)", "WIDE(8, 0)"]
    others += ["EVEN(2, 2)", "EVEN(3, 2)", ROW_STEP]
    return woven(others, sums_of(block, 4, range(4, 8)), [1, 1, 1, 2, 2, 1, 2, 2, 1, 2], 1)


def third_tap(outputs: Sequence[int], values: Sequence[int]) -> list[str]:
    """The last of three taps; each channel steps to the next row of weights."""
    sums = [sums_of([(m, p) for p in outputs], 0, values) for m in FOUR]
    return [word for m in FOUR for word in woven(CHANNEL_STEPS[m : m + 1], sums[m], [2], 2)]


def fours() -> Iterator[Macro]:
    """Rows of taps of four neighbours, for conv_fours.h."""
    narrow, wide, next_values = range(2, 6), (1, 2, 3, 0), ["WIDE(1, 4)", "WIDE(3, 5)"]
    for name, outputs in (("", FOUR), ("_BUT_FIRST", FOUR[1:])):
        behind = [2, 2, 2, 2] if len(outputs) == 4 else [2, 1, 2]
        first = {
            n: first_tap(outputs, False, [f"ODD(0, {n}, 4)", "VALUE(4)", f"ODD(1, {n}, 5)"], [*behind, 1])
            for n in (1, 2)
        }
        yield f"THREE{name}", "", first[1] + second_tap(True) + third_tap(FOUR, narrow)
        if not name:
            yield "THREE_BUT_LAST", "", first[1] + second_tap(False) + third_tap(FOUR[:3], narrow)
        later = ["ODD(0, 1, 4)", *next_values, "ODD(1, 1, 5)"]
        moving = first_tap(outputs, True, later, [2, 2, 2, 1, 1, 2] if not name else [2, 1, 1, 1, 1])
        yield f"MOVING{name}", "", moving + second_wide() + third_tap(FOUR, wide)
        yield f"TWO{name}", "", first[2] + second_of_two()
    steps = [*CHANNEL_STEPS[:3], ROW_STEP, CHANNEL_STEPS[3]]
    yield "ONE", "", first_tap(FOUR, False, steps, [2, 1, 1, 1, 1, 2, 2])


def sixteens() -> Iterator[Macro]:
    """Rows of three taps, or of two that lie two apart, of four channels by four outputs, for conv_taps.h."""
    sums = [f"MAC({m}{p}, {m}, {p})" for p in FOUR for m in FOUR]
    begin = [("ft0", "t0"), ("fa0", "t4"), ("ft1", "t1"), ("ft2", "t2"), ("ft3", "t3"), ("fa1", "t5"), ("fa2", "t6")]
    steps = [f'ADD("{at}", "%[b_k]")' for at in ("a7", "t4", "t5", "t6")] + [f'ADD("t{m}", "%[a_k]")' for m in FOUR]
    for taps, apart in ((2, 8), (3, 4)):
        values = ["0", "TAP_1", "TAP_2"][:taps]
        words = [f'FLW("{to}", "{at}", 0)' for to, at in begin]
        for tap, now in enumerate(values[:-1], 1):
            loads = [f'FLW("fa3", "a7", {now})'] + [f'FLW("fa{p}", "t{4 + p}", {values[tap]})' for p in FOUR[:3]]
            loads += [f'FLW("ft{m}", "t{m}", {tap * apart})' for m in FOUR]
            words += woven(loads, sums, [3, 4, 4, 1, 1, 1, 1, 0], 1)
        yield f"SIXTEEN_{taps}", "", words + woven([f'FLW("fa3", "a7", {values[-1]})', *steps], sums, [1] * 9, 1)


def shared() -> Iterator[Macro]:
    """Rows of taps of four sums that share a factor, for conv_taps.h."""
    words: list[str] = []
    for tap in range(MOST_SHARED):
        loads = [f'FLW("fa0", "t4", {tap} * W_W)', *(f'FLW("ft{m}", "t{m}", {tap} * X_W)' for m in FOUR)]
        words += woven(loads, [f'FMA("%[s{m}]", "ft{m}", "fa0")' for m in FOUR], [0, 0, 1, 1, 2])
        yield f"SHARED_{tap + 1}", "", list(words)


def macros() -> Iterator[Macro]:
    """Name, parameters and schedule of each macro; the names of conv_fours.h begin with FOURS."""
    for name, parameters, words in fours():
        yield f"FOURS_{name}", parameters, words
    yield from sixteens()
    yield from shared()
