"""Search for homes by the clock of the middle level: storages lie in it, are cached in it, or pass through stages.

It begins at the solver's choice, and keeps the best that it meets. Where there are few storages it tries all ways to
place them; otherwise it is threshold accepting: a random change is kept unless it loses more cycles than a threshold,
which falls to nothing. The numbers are drawn from a fixed seed and all arithmetic is on integers, so the choice is the
same everywhere.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

import numpy as np

from deployer.tilers.levels.grid import Ints
from deployer.tilers.levels.model import HomeProblem, HomeSelection, objective

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
ANY = 1 << 60
"""More bytes than any level has."""

OUTSIDE, RESIDENCY, HOME = range(3)
"""Where a storage is in the level: not at all, for the steps that use it, or all its life."""
Change = tuple[int, int]
"""The number of a storage, and where it goes."""


class SearchState(NamedTuple):
    """The place of each storage; the bytes that storages take at each step, and its pick; `inside` has a bit for each
    storage that the steps find in the level, `cached` the names of those that are there for some steps alone.

    A step has its cheapest candidate while its room is within `least` up to `most`, without that. Where a state was
    made from another, `met` are the steps whose picks may differ.
    """

    places: tuple[int, ...]
    taken: Ints
    picks: list[int]
    inside: int
    cached: frozenset[str]
    least: Ints
    most: Ints
    met: Collection[int] | None = None


class _Move(NamedTuple):
    """A storage's change of place: the steps that it meets, and how many bytes more are taken in each; those whose
    candidates depend on it, and what changes in the state's sets."""

    met: Ints
    more: Ints
    users: Sequence[int]
    inside: int
    cached: frozenset[str]


class HomeSearch:
    """A search over one problem."""

    def __init__(
        self,
        problem: HomeProblem,
        clock: Callable[[Sequence[int], Iterable[str], Collection[int] | None], int],
        keep: Callable[[], None] = lambda: None,
    ) -> None:
        """`clock` gives the cycles of picks and cached storages. `keep` tells it that choices which differ little
        from the last one come next; then it is also given the steps whose picks may differ.
        """
        self.problem, self._clock, self._keep = problem, clock, keep
        self._overlaps: dict[int, list[int]] = {}
        self._moves: dict[tuple[int, int, int], _Move] = {}
        self.names = [life.storage for life in problem.eligible]
        number = {name: i for i, name in enumerate(self.names)}
        self.bytes = [life.bytes for life in problem.eligible]
        cacheable = {number[v.storage]: v for v in problem.cacheable}
        self.spans: list[dict[int, list[range]]] = []
        for i, life in enumerate(problem.eligible):
            spans = {OUTSIDE: list[range](), HOME: [range(life.first, life.last + 1)]}
            if i in cacheable:
                spans[RESIDENCY] = [range(first, last + 1) for first, last in cacheable[i].spans]
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
        self._fitting: list[dict[int, list[tuple[int, int]]]] = [{} for _ in self.options]
        self.runs = min(WORK // max(len(problem.candidates), 1), RUNS_EACH * len(self.names))

    def best(self, start: HomeSelection, others: Sequence[HomeSelection] = ()) -> HomeSelection:
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

    def _placed(self, choice: HomeSelection) -> SearchState | None:
        """The state in which storages are where another choice has them; None if a step has no candidate that fits."""
        state = self._state(replace(choice, resident=frozenset(), cached=frozenset()))
        places = (HOME if x in choice.resident else RESIDENCY if x in choice.cached else OUTSIDE for x in self.names)
        return self._changed(state, list(enumerate(places)), True)

    def _state(self, choice: HomeSelection) -> SearchState:
        """The state of a choice."""
        count = len(choice.picks)
        places, taken, inside = list[int](), np.zeros(count, np.int64), 0
        for number, name in enumerate(self.names):
            place = HOME if name in choice.resident else RESIDENCY if name in choice.cached else OUTSIDE
            places.append(place)
            inside |= (place != OUTSIDE) << number
            for steps in self.spans[number][place]:
                taken[steps.start : steps.stop] += self.bytes[number]
        cached = frozenset(name for name, at in zip(self.names, places, strict=True) if at == RESIDENCY)
        # Which picks are cheapest is not known.
        unknown = np.full(count, ANY), np.zeros(count, np.int64)
        return SearchState(tuple(places), taken, list(choice.picks), inside, cached, *unknown)

    def _choice(self, state: SearchState) -> HomeSelection:
        """The choice of a state, with the cycles of the solver's objective."""
        homes = frozenset(name for name, at in zip(self.names, state.places, strict=True) if at == HOME)
        cycles = objective(self.problem, state.picks, state.cached)
        return HomeSelection(tuple(state.picks), homes, cycles, state.cached)

    def _cycles(self, state: SearchState) -> int:
        """Cycles by the clock."""
        return self._clock(state.picks, state.cached, None)

    def _cycles_near(self, state: SearchState) -> int:
        """Cycles of a state that was made from the one that the clock has kept."""
        return self._clock(state.picks, state.cached, state.met)

    def _begin(self, state: SearchState) -> None:
        """Let the clock's next states be ones that differ little from this one."""
        self._cycles(state)
        self._keep()

    def _changed(self, state: SearchState, changes: Sequence[Change], all_steps: bool = False) -> SearchState | None:
        """The state behind some changes, where steps that they meet, or all, have their cheapest candidate; None if one
        has none that fits.
        """
        places, taken, picks = list(state.places), state.taken.copy(), list(state.picks)
        least, most, inside, cached = state.least.copy(), state.most.copy(), state.inside, state.cached
        due, moves = set(range(len(picks)) if all_steps else ()), list[_Move]()
        for number, place in changes:
            move = self._move(number, places[number], place)
            taken[move.met] += move.more
            due.update(move.users)
            inside ^= move.inside
            cached ^= move.cached
            places[number] = place
            moves.append(move)
        for move in moves:
            rooms = self.problem.capacity - taken[move.met]
            due.update(move.met[(rooms < least[move.met]) | (rooms >= most[move.met])].tolist())
        for step in due:
            room = self.problem.capacity - int(taken[step])
            above = ANY
            for index, size in self._sorted(step, inside & self.touched[step]):
                if size <= room:
                    picks[step], least[step], most[step] = index, size, above
                    break
                above = size
            else:
                return None
        return SearchState(tuple(places), taken, picks, inside, cached, least, most, due)

    def _move(self, number: int, before: int, place: int) -> _Move:
        """A storage's change from one place to another."""
        key = number, before, place
        if key not in self._moves:
            more = dict[int, int]()
            for size, spans in ((-self.bytes[number], before), (self.bytes[number], place)):
                for step in itertools.chain(*self.spans[number][spans]):
                    more[step] = more.get(step, 0) + size
            comes = (place == OUTSIDE) != (before == OUTSIDE)
            residencies = (place == RESIDENCY) != (before == RESIDENCY)
            self._moves[key] = _Move(
                np.array([*more], np.int64),
                np.array([*more.values()], np.int64),
                self.users[number] if comes else (),
                int(comes) << number,
                frozenset((self.names[number],) if residencies else ()),
            )
        return self._moves[key]

    def _sorted(self, step: int, inside: int) -> list[tuple[int, int]]:
        """A step's candidates with these storages in the level, by cycles, without those that need no less than a
        quicker one: each with its index and bytes.
        """
        known = self._fitting[step]
        if inside not in known:
            known[inside], least = [], ANY
            for _, index, size in self.options[step].get(inside, ()):
                if size < least:
                    known[inside].append((index, size))
                    least = size
        return known[inside]

    def _others(self, state: SearchState, step: int) -> list[int]:
        """The candidates that a step could have besides its own, where storages are."""
        room = self.problem.capacity - int(state.taken[step])
        group = self.options[step].get(state.inside & self.touched[step], ())
        return [index for _, index, size in group if size <= room and index != state.picks[step]]

    def _picked(self, state: SearchState, step: int, pick: int) -> SearchState:
        """The state with another candidate of a step."""
        picks = [*state.picks[:step], pick, *state.picks[step + 1 :]]
        least, most = state.least.copy(), state.most
        least[step] = ANY
        return SearchState(state.places, state.taken, picks, state.inside, state.cached, least, most, (step,))

    def _all(self) -> Iterator[tuple[int, SearchState]]:
        """All states in which each step has its cheapest candidate that fits."""
        none = self._state(HomeSelection((0,) * len(self.problem.candidates), frozenset(), 0))
        for places in itertools.product(*self.spans):
            state = self._changed(none, list(enumerate(places)), True)
            if state is not None:
                yield self._cycles(state), state

    def _accepted(self, cycles: int, state: SearchState) -> Iterator[tuple[int, SearchState]]:
        """The states that threshold accepting keeps."""
        draw = Random(SEED)
        self._begin(state)
        tried = filter(None, (self._proposed(state, draw) for _ in range(SAMPLES)))
        changes = sorted(abs(self._cycles_near(other) - cycles) for other in tried)
        first = changes[len(changes) // 2] if changes else 0
        for run in range(self.runs):
            threshold = first * (self.runs - run) ** 2 // self.runs**2
            other = self._proposed(state, draw)
            if other is None:
                continue
            then = self._cycles_near(other)
            if then <= cycles + threshold:
                state, cycles = other, then
                self._keep()
                yield cycles, state

    def _proposed(self, state: SearchState, draw: Random) -> SearchState | None:
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

    def _near(self, state: SearchState, number: int) -> list[int]:
        """The storages in the level that are live in some step of another one's life."""
        return [i for i in self._overlapping(number) if state.places[i] != OUTSIDE]

    def _overlapping(self, number: int) -> list[int]:
        """The other storages that are live in some step of one's life."""
        if number not in self._overlaps:
            lives = self.problem.eligible
            life = lives[number]
            near = (i for i, x in enumerate(lives) if x.first <= life.last and x.last >= life.first)
            self._overlaps[number] = [i for i in near if i != number]
        return self._overlaps[number]

    def _moved(self, state: SearchState, number: int, one: Callable[[int], int]) -> Change:
        """A storage, and another place for it."""
        places = [place for place in self.spans[number] if place != state.places[number]]
        return number, places[one(len(places))]

    def _settled(self, cycles: int, state: SearchState) -> tuple[int, SearchState]:
        """The state behind all changes of one candidate that save cycles."""
        self._begin(state)
        for step in range(len(state.picks)):
            for pick in self._others(state, step):
                other = self._picked(state, step, pick)
                then = self._cycles_near(other)
                if then < cycles:
                    state, cycles = other, then
                    self._keep()
        return cycles, state
