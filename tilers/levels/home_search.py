"""The search for homes by the clock of the level between: which storages lie in it, visit it, or pass through stages.

It begins at the solver's choice, and keeps the best that it meets. Where there are few storages it tries all ways to
place them; otherwise it is threshold accepting: a random change is kept unless it loses more cycles than a threshold,
which falls to nothing. The numbers are drawn from a fixed seed and all arithmetic is on integers, so the choice is the
same everywhere.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from deployer.tilers.levels.model import Choice, Problem, objective

WORK = 4_000_000
"""Steps that all runs of the clock in a search may have together: some seconds."""
RUNS_EACH = 200
"""Runs of the clock for each storage, at most."""
SAMPLES = 100
"""Random changes of the start whose median in cycles is the first threshold."""
REPICK = 8
"""One change in this many is of a step's candidate alone."""
EVICTIONS = 3
"""How many storages are tried, one by one, in exchange for one that comes in."""
SEED = 1

OUTSIDE, VISIT, HOME = range(3)
"""Where a storage is in the level: not at all, for the steps that use it, or all its life."""
Change = tuple[int, int]
"""The number of a storage, and where it goes."""


@dataclass(frozen=True)
class State:
    """Where each storage is; the bytes that storages take at each step, and its pick; `inside` has a bit for each
    storage that the steps find in the level, `visiting` the names of those that are there for some steps alone.
    """

    places: tuple[int, ...]
    taken: list[int]
    picks: list[int]
    inside: int
    visiting: frozenset[str]


class HomeSearch:
    """A search over one problem."""

    def __init__(
        self,
        problem: Problem,
        clock: Callable[[Sequence[int], Iterable[str]], int],
        keep: Callable[[], None] = lambda: None,
    ) -> None:
        """`clock` gives the cycles of picks and visiting storages. `keep` tells it that choices which differ little
        from the last one come next.
        """
        self.problem, self._clock, self._keep = problem, clock, keep
        self._overlaps: dict[int, list[int]] = {}
        self.names = [life.storage for life in problem.eligible]
        number = {name: i for i, name in enumerate(self.names)}
        self.bytes = [life.bytes for life in problem.eligible]
        visitors = {number[v.storage]: v for v in problem.visitors}
        self.spans: list[dict[int, list[range]]] = []
        for i, life in enumerate(problem.eligible):
            spans = {OUTSIDE: list[range](), HOME: [range(life.first, life.last + 1)]}
            if i in visitors:
                spans[VISIT] = [range(first, last + 1) for first, last in visitors[i].spans]
            self.spans.append(spans)
        self.touched = [sum(1 << number[name] for name in names) for names in problem.touches]
        self.users: list[list[int]] = [[] for _ in self.names]
        for step, names in enumerate(problem.touches):
            for name in names:
                self.users[number[name]].append(step)
        self.options: list[dict[int, list[tuple[int, int, int]]]] = []
        for candidates in problem.candidates:
            groups: dict[int, list[tuple[int, int, int]]] = {}
            for index, c in enumerate(candidates):
                inside = sum(1 << number[name] for name in c.resident)
                groups.setdefault(inside, []).append((c.cycles, index, c.bytes))
            self.options.append({inside: sorted(group) for inside, group in groups.items()})
        self.runs = min(WORK // max(len(problem.candidates), 1), RUNS_EACH * len(self.names))

    def best(self, start: Choice, others: Sequence[Choice] = ()) -> Choice:
        """The choice with the fewest cycles by the clock that the search meets; the start, if none has fewer.

        It begins at the best of the start and of the places that storages have in `others`, which are choices of
        problems with other candidates.
        """
        first = self._state(start)
        states = [first, *filter(None, map(self._placed, others))]
        least, *more = map(self._cycles, states)
        begin = min(zip((least, *more), states, strict=True), key=lambda x: x[0])
        found = self._all() if math.prod(map(len, self.spans)) <= self.runs else self._accepted(*begin)
        cycles, best = self._settled(*min(itertools.chain([begin], found), key=lambda x: x[0]))
        return self._choice(best) if cycles < least else start

    def _placed(self, choice: Choice) -> State | None:
        """The state in which storages are where another choice has them; None if a step has no candidate that fits."""
        state = self._state(replace(choice, resident=frozenset(), visiting=frozenset()))
        places = (HOME if x in choice.resident else VISIT if x in choice.visiting else OUTSIDE for x in self.names)
        return self._changed(state, list(enumerate(places)), True)

    def _state(self, choice: Choice) -> State:
        """The state of a choice."""
        places, taken, inside = list[int](), [0] * len(choice.picks), 0
        for number, name in enumerate(self.names):
            place = HOME if name in choice.resident else VISIT if name in choice.visiting else OUTSIDE
            places.append(place)
            inside |= (place != OUTSIDE) << number
            for step in itertools.chain(*self.spans[number][place]):
                taken[step] += self.bytes[number]
        visiting = frozenset(name for name, at in zip(self.names, places, strict=True) if at == VISIT)
        return State(tuple(places), taken, list(choice.picks), inside, visiting)

    def _choice(self, state: State) -> Choice:
        """The choice of a state, with the cycles of the solver's objective."""
        homes = frozenset(name for name, at in zip(self.names, state.places, strict=True) if at == HOME)
        cycles = objective(self.problem, state.picks, state.visiting)
        return Choice(tuple(state.picks), homes, cycles, state.visiting)

    def _cycles(self, state: State) -> int:
        """Cycles by the clock."""
        return self._clock(state.picks, state.visiting)

    def _begin(self, state: State) -> None:
        """Let the clock's next states be ones that differ little from this one."""
        self._cycles(state)
        self._keep()

    def _changed(self, state: State, changes: Sequence[Change], anew: bool = False) -> State | None:
        """The state behind some changes, where steps that they meet, or all, have their cheapest candidate; None if one
        has none that fits.
        """
        places, taken, picks, inside = list(state.places), list(state.taken), list(state.picks), state.inside
        visiting, options, touched = state.visiting, self.options, self.touched
        met = set(range(len(picks)) if anew else ())
        for number, place in changes:
            size, spans = self.bytes[number], self.spans[number]
            for sign, steps in ((-size, spans[places[number]]), (size, spans[place])):
                for span in steps:
                    met.update(span)
                    for step in span:
                        taken[step] += sign
            if (place == OUTSIDE) != (places[number] == OUTSIDE):
                met.update(self.users[number])
                inside ^= 1 << number
            if VISIT in (place, places[number]):
                visiting ^= {self.names[number]} if place != places[number] else set[str]()
            places[number] = place
        capacity = self.problem.capacity
        for step in met:
            room = capacity - taken[step]
            for _, index, size in options[step].get(inside & touched[step], ()):
                if size <= room:
                    picks[step] = index
                    break
            else:
                return None
        return State(tuple(places), taken, picks, inside, visiting)

    def _others(self, state: State, step: int) -> list[int]:
        """The candidates that a step could have besides its own, where storages are."""
        room = self.problem.capacity - state.taken[step]
        group = self.options[step].get(state.inside & self.touched[step], ())
        return [index for _, index, size in group if size <= room and index != state.picks[step]]

    def _picked(self, state: State, step: int, pick: int) -> State:
        """The state with another candidate of a step."""
        picks = [*state.picks[:step], pick, *state.picks[step + 1 :]]
        return State(state.places, state.taken, picks, state.inside, state.visiting)

    def _all(self) -> Iterator[tuple[int, State]]:
        """All states in which each step has its cheapest candidate that fits."""
        none = self._state(Choice((0,) * len(self.problem.candidates), frozenset(), 0))
        for places in itertools.product(*self.spans):
            state = self._changed(none, list(enumerate(places)), True)
            if state is not None:
                yield self._cycles(state), state

    def _accepted(self, cycles: int, state: State) -> Iterator[tuple[int, State]]:
        """The states that threshold accepting keeps."""
        draw = Random(SEED)
        self._begin(state)
        tried = filter(None, (self._proposed(state, draw) for _ in range(SAMPLES)))
        changes = sorted(abs(self._cycles(other) - cycles) for other in tried)
        first = changes[len(changes) // 2] if changes else 0
        for run in range(self.runs):
            threshold = first * (self.runs - run) ** 2 // self.runs**2
            other = self._proposed(state, draw)
            if other is None:
                continue
            then = self._cycles(other)
            if then <= cycles + threshold:
                state, cycles = other, then
                self._keep()
                yield cycles, state

    def _proposed(self, state: State, draw: Random) -> State | None:
        """A random change of a state, or None where it does not fit."""

        def one(count: int) -> int:
            return int(draw.random() * count)

        if not one(REPICK):
            step = one(len(state.picks))
            others = self._others(state, step)
            return self._picked(state, step, others[one(len(others))]) if others else None
        number = one(len(self.names))
        change = self._moved(state, number, one)
        alone = self._changed(state, [change])
        if change[1] == OUTSIDE or (alone is not None and one(2)):
            return alone
        # What comes in takes the room of another storage.
        near = self._near(state, number)
        for _ in range(min(EVICTIONS, len(near))):
            other = self._changed(state, [change, self._moved(state, near.pop(one(len(near))), one)])
            if other is not None:
                return other
        return alone

    def _near(self, state: State, number: int) -> list[int]:
        """The storages in the level that are alive in some step of another one's life."""
        return [i for i in self._overlapping(number) if state.places[i] != OUTSIDE]

    def _overlapping(self, number: int) -> list[int]:
        """The other storages that are alive in some step of one's life."""
        if number not in self._overlaps:
            lives = self.problem.eligible
            life = lives[number]
            near = (i for i, x in enumerate(lives) if x.first <= life.last and x.last >= life.first)
            self._overlaps[number] = [i for i in near if i != number]
        return self._overlaps[number]

    def _moved(self, state: State, number: int, one: Callable[[int], int]) -> Change:
        """A storage, and another place for it."""
        places = [place for place in self.spans[number] if place != state.places[number]]
        return number, places[one(len(places))]

    def _settled(self, cycles: int, state: State) -> tuple[int, State]:
        """The state behind all changes of one candidate that save cycles."""
        self._begin(state)
        for step in range(len(state.picks)):
            for pick in self._others(state, step):
                other = self._picked(state, step, pick)
                then = self._cycles(other)
                if then < cycles:
                    state, cycles = other, then
                    self._keep()
        return cycles, state
