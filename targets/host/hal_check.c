/* What a step must and must not do. Every byte of a level carries marks; a kernel's accesses are known only by its
 * operands, so they count for a whole slot part, those of transfers for their very bytes. */
#include "hal_host.h"

#include <stdlib.h>
#include <string.h>

enum { /* marks of a slot's bytes in this step */
    FILLED = 1,  /* an ingress came in, or a kernel or an inner level's egress wrote */
    UNREAD = 2,  /* an ingress came in, nobody read it since */
    UNSENT = 4,  /* written since the last egress */
    EVENLY = 8,  /* with UNREAD: every byte is to be read, not just some of the part */
    EMPTY = 16,  /* an ingress of no bytes came in: a kernel may be told of the part, and reads nothing */
};

typedef struct {
    uint8_t *marks, *readers, *writers; /* by byte; readers, writers: transfers in flight */
} level_state_t;

typedef struct {
    uint8_t sent, unsent[HOST_PARTS]; /* any egress in this step; a write after the last egress of the part */
} slot_state_t;

/* edges[i]: how many more transfers hold byte i of the tensor than byte i - 1. */
typedef struct {
    int32_t *in, *out;
} cover_state_t;

static level_state_t *levels;
static slot_state_t *slots;
static cover_state_t *covers; /* of this step */

static const hal_sim_step_t *step(void) { return &hal_sim.steps[host.step]; }
static uint32_t is_slot(const host_place_t *place) { return place->buffer->kind == HAL_SIM_SLOT; }
static slot_state_t *slot_of(const host_place_t *place) { return &slots[place->buffer - hal_sim.buffers]; }

/* ---- bytes ---- */

/* The first byte of the range with a mark of the mask (`want`) or without it; `end` where there is none. */
static uint32_t find_marks(const uint8_t *marks, uint32_t start, uint32_t end, uint8_t mask, uint32_t want) {
    const uint64_t all = mask * 0x0101010101010101u, usual = want ? 0 : all;
    for (uint64_t eight; start + 8 <= end; start += 8) {
        memcpy(&eight, marks + start, 8);
        if ((eight & all) != usual) break;
    }
    while (start < end && (marks[start] & mask ? 1u : 0u) != want) start++;
    return start;
}

/* The first byte of the side's runs, else UINT32_MAX. */
static uint32_t find_on_side(const uint8_t *marks, const host_side_t *side, uint8_t mask, uint32_t want) {
    for (uint32_t i = 0; i < side_lines(side); i++) {
        const uint32_t start = side_run(side, i), found = find_marks(marks, start, start + side->run, mask, want);
        if (found < start + side->run) return found;
    }
    return UINT32_MAX;
}

static void change_marks(uint8_t *marks, uint32_t start, uint32_t end, uint8_t clear, uint8_t set) {
    for (uint32_t i = start; i < end; i++) marks[i] = (uint8_t)((marks[i] & ~clear) | set);
}

static void change_on_side(uint8_t *marks, const host_side_t *side, uint8_t clear, uint8_t set) {
    for (uint32_t i = 0; i < side_lines(side); i++)
        change_marks(marks, side_run(side, i), side_run(side, i) + side->run, clear, set);
}

static void count_on_side(uint8_t *counts, const host_side_t *side, int32_t change) {
    for (uint32_t i = 0; i < side_lines(side); i++) {
        uint8_t *run = counts + side_run(side, i);
        for (uint32_t k = 0; k < side->run; k++) run[k] = (uint8_t)(run[k] + change);
    }
}

/* ---- what the step says of its tensors ---- */

static uint32_t cover_start(const hal_sim_cover_t *cover) {
    return hal_sim.buffers[cover->buffer].address + cover->offset;
}

static uint32_t is_covered(const hal_sim_cover_t *cover, const host_transfer_t *t) {
    return cover->hop == t->hop && (t->inward ? cover->in : cover->out);
}

/* What the step says of the tensor that the transfer moves, or NULL. */
static const hal_sim_cover_t *find_cover(const host_transfer_t *t) {
    for (uint32_t i = 0; i < step()->cover_count; i++) {
        const hal_sim_cover_t *cover = &step()->covers[i];
        if (is_covered(cover, t) && &hal_sim.buffers[cover->buffer] == t->outer.place.buffer) return cover;
    }
    return NULL;
}

/* ---- transfers against transfers ---- */

static const char *in_flight(const host_side_t *side, uint32_t at, uint32_t writes) {
    const host_transfer_t *other = dma_touching(side->place.level, at, at + 1, writes);
    return host_text("%s + 0x%x, which %s %s", hal_sim.levels[side->place.level].name, at, dma_name(other),
                     writes ? "is still writing" : "is still reading");
}

static void check_conflicts(const host_transfer_t *t) {
    const host_side_t *source = dma_source(t), *target = dma_target(t);
    const level_state_t *from = &levels[source->place.level], *to = &levels[target->place.level];
    uint32_t at = find_on_side(from->writers, source, 0xff, 1);
    if (at != UINT32_MAX) host_fail("forgotten-wait", "%s begins to read %s", dma_name(t), in_flight(source, at, 1));
    /* Two egresses to the same place of a tensor are a box gone wrong: coverage will name the element. */
    at = !t->inward && find_cover(t) ? UINT32_MAX : find_on_side(to->writers, target, 0xff, 1);
    if (at != UINT32_MAX) host_fail("forgotten-wait", "%s begins to write %s", dma_name(t), in_flight(target, at, 1));
    at = find_on_side(to->readers, target, 0xff, 1);
    if (at != UINT32_MAX) host_fail("write-while-read", "%s begins to write %s", dma_name(t), in_flight(target, at, 0));
}

void check_waited(const host_transfer_t *t) {
    const host_side_t *source = dma_source(t), *target = dma_target(t);
    count_on_side(levels[source->place.level].readers, source, -1);
    count_on_side(levels[target->place.level].writers, target, -1);
}

/* ---- coverage ---- */

/* Counts the run in every cover that holds it. Returns whether the step may move it: it does, or says nothing of
 * the buffer. */
static uint32_t count_run(const host_transfer_t *t, uint32_t start, uint32_t bytes) {
    uint32_t counted = 0, named = 0;
    for (uint32_t i = 0; i < step()->cover_count; i++) {
        const hal_sim_cover_t *cover = &step()->covers[i];
        if (!is_covered(cover, t)) continue;
        if (&hal_sim.buffers[cover->buffer] == t->outer.place.buffer) named = 1;
        const uint32_t first = cover_start(cover);
        if (start < first || start - first > cover->bytes || bytes > cover->bytes - (start - first)) continue;
        int32_t *edges = t->inward ? covers[i].in : covers[i].out;
        edges[start - first]++;
        edges[start - first + bytes]--;
        counted = 1;
    }
    return counted || !named;
}

static void count_coverage(const host_transfer_t *t) {
    for (uint32_t i = 0; i < side_lines(&t->outer); i++) {
        const uint32_t start = side_run(&t->outer, i);
        if (!count_run(t, start, t->outer.run))
            host_fail("coverage", "line %u of %s, %u B at %s + 0x%x, leaves the tensor that the step moves", i,
                      dma_name(t), t->outer.run, hal_sim.levels[t->outer.place.level].name, start);
    }
}

/* Every byte at least once (1) or equally often (2) in, exactly once out. */
static void check_counts(const hal_sim_cover_t *cover, const int32_t *edges, uint32_t inward) {
    int32_t times = 0;
    for (uint32_t i = 0; i < cover->bytes; i++) {
        times += edges[i];
        if (inward ? times >= 1 && (cover->in < 2 || times == edges[0]) : times == 1) continue;
        const char *expected = "exactly once";
        if (inward) expected = times < 1 ? "at least once" : host_text("%d times like element 0", edges[0]);
        host_fail("coverage", "element %u (byte %u of %u) of '%s' %s through hop %u %d times, not %s", i / 4, i,
                  cover->bytes, hal_sim.buffers[cover->buffer].name, inward ? "came in" : "went out", cover->hop, times,
                  expected);
    }
}

static void check_coverage(void) {
    for (uint32_t i = 0; i < step()->cover_count; i++) {
        if (step()->covers[i].in) check_counts(&step()->covers[i], covers[i].in, 1);
        if (step()->covers[i].out) check_counts(&step()->covers[i], covers[i].out, 0);
    }
}

/* ---- transfers and slots ---- */

static void fill_slot(const host_transfer_t *t) {
    uint8_t *marks = levels[t->inner.place.level].marks;
    const uint32_t at = find_on_side(marks, &t->inner, UNREAD, 1);
    if (at != UINT32_MAX)
        host_fail("swapped-slot", "%s overwrites byte %u of a tile that nobody has read yet", dma_name(t),
                  at - t->inner.place.offset);
    const hal_sim_cover_t *cover = find_cover(t);
    change_on_side(marks, &t->inner, EVENLY | EMPTY, FILLED | UNREAD | (cover && cover->in == 2 ? EVENLY : 0));
}

/* Takes the place of the tile before, whose content is gone. */
void check_empty(uint32_t hop, const void *inner) {
    host_place_t place;
    if (!memory_find(&place, inner, 1) || place.level != hop || !is_slot(&place))
        host_fail("outside-buffer", "an empty transfer through hop %u has no slot: %s", hop, memory_where(inner, 1));
    const host_transfer_t *t = dma_touching(place.level, place.start, place.end, 1);
    if (!t) t = dma_touching(place.level, place.start, place.end, 0);
    if (t) host_fail("forgotten-wait", "an empty transfer takes the place of %s", dma_name(t));
    uint8_t *marks = levels[place.level].marks;
    const uint32_t at = find_marks(marks, place.start, place.end, UNREAD, 1);
    if (at < place.end)
        host_fail("swapped-slot", "an empty transfer overwrites byte %u of a tile that nobody has read yet: %s",
                  at - place.start, memory_name(&place));
    change_marks(marks, place.start, place.end, FILLED | UNSENT, EMPTY);
    memory_poison(hal_sim.levels[place.level].memory + place.start, place.end - place.start);
}

static void drain_slot(const host_transfer_t *t) {
    uint8_t *marks = levels[t->inner.place.level].marks;
    const uint32_t at = find_on_side(marks, &t->inner, UNSENT, 0);
    if (at != UINT32_MAX)
        host_fail("stale-egress", "%s sends byte %u, which nobody wrote since the last egress from there", dma_name(t),
                  at - t->inner.place.offset);
    change_on_side(marks, &t->inner, UNSENT, 0);
    slot_of(&t->inner.place)->sent = 1;
    slot_of(&t->inner.place)->unsent[t->inner.place.part] = 0;
}

/* A slot of an outer level is read by ingresses of the inner hop... */
static void read_outer_slot(const host_transfer_t *t) {
    const host_place_t *place = &t->outer.place;
    uint8_t *marks = levels[place->level].marks;
    const uint32_t at = find_on_side(marks, &t->outer, FILLED, 0);
    if (at != UINT32_MAX)
        host_fail("swapped-slot", "%s reads %s + 0x%x, which nobody filled in this step", dma_name(t),
                  hal_sim.levels[place->level].name, at);
    if (marks[place->offset] & EVENLY) change_on_side(marks, &t->outer, UNREAD, 0);
    else change_marks(marks, place->start, place->end, UNREAD, 0);
}

/* ...and written by its egresses. */
static void write_outer_slot(const host_transfer_t *t) {
    change_on_side(levels[t->outer.place.level].marks, &t->outer, 0, FILLED | UNSENT);
    slot_of(&t->outer.place)->unsent[t->outer.place.part] = 1;
}

void check_transfer(const host_transfer_t *t) {
    check_conflicts(t);
    if (is_slot(&t->inner.place)) (t->inward ? fill_slot : drain_slot)(t);
    if (is_slot(&t->outer.place)) (t->inward ? read_outer_slot : write_outer_slot)(t);
    count_coverage(t);
    count_on_side(levels[dma_source(t)->place.level].readers, dma_source(t), 1);
    count_on_side(levels[dma_target(t)->place.level].writers, dma_target(t), 1);
}

/* ---- kernels ---- */

static uint32_t place_operand(host_place_t *place, const hal_sim_operand_t *operand, const void *args) {
    const void *pointer;
    memcpy(&pointer, (const uint8_t *)args + operand->offset, sizeof pointer);
    if (!pointer) return 0;
    if (!memory_find(place, pointer, 1))
        host_fail("outside-buffer", "operand '%s' of kernel call %u does not point into a live buffer: %s",
                  operand->arg, host.calls, memory_where(pointer, 1));
    return 1;
}

static void check_operand(const hal_sim_operand_t *operand, const host_place_t *place) {
    const host_transfer_t *t = dma_touching(place->level, place->start, place->end, 1);
    if (t)
        host_fail("forgotten-wait", "operand '%s' of kernel call %u is %s, which %s is still writing", operand->arg,
                  host.calls, memory_name(place), dma_name(t));
    t = dma_touching(place->level, place->start, place->end, 0);
    if (t && operand->writes)
        host_fail("write-while-read", "kernel call %u writes operand '%s', %s, which %s is still reading", host.calls,
                  operand->arg, memory_name(place), dma_name(t));
    /* An accumulator that starts at zero has nothing to come in. */
    const uint32_t filled = levels[place->level].marks[place->offset] & (FILLED | EMPTY);
    if (is_slot(place) && operand->reads && !operand->writes && !filled)
        host_fail("swapped-slot", "kernel call %u reads operand '%s', %s, which nobody filled in this step", host.calls,
                  operand->arg, memory_name(place));
}

static void mark_operand(const hal_sim_operand_t *operand, const host_place_t *place) {
    if (!is_slot(place)) return;
    uint8_t *marks = levels[place->level].marks;
    if (operand->reads) change_marks(marks, place->start, place->end, UNREAD, 0);
    if (!operand->writes) return;
    change_marks(marks, place->start, place->end, 0, FILLED | UNSENT);
    slot_of(place)->unsent[place->part] = 1;
}

/* All operands are looked at before any is marked: two of them may share a slot. */
void check_kernel(const void *args) {
    host_place_t place;
    for (uint32_t i = 0; i < step()->operand_count; i++)
        if (place_operand(&place, &step()->operands[i], args)) check_operand(&step()->operands[i], &place);
    for (uint32_t i = 0; i < step()->operand_count; i++)
        if (place_operand(&place, &step()->operands[i], args)) mark_operand(&step()->operands[i], &place);
}

/* ---- a step's beginning and end ---- */

static void check_slots(void) {
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++) {
        const hal_sim_buffer_t *b = &hal_sim.buffers[i];
        if (b->kind != HAL_SIM_SLOT || host.step < b->first || host.step > b->last) continue;
        const uint32_t size = b->bytes / b->parts, end = b->address + b->bytes;
        const uint32_t unread = find_marks(levels[b->level].marks, b->address, end, UNREAD, 1);
        if (unread < end)
            host_fail("swapped-slot", "byte %u of part %u of '%s' came in and was never read",
                      (unread - b->address) % size, (unread - b->address) / size, b->name);
        for (uint32_t part = 0; part < b->parts; part++)
            if (slots[i].sent && slots[i].unsent[part])
                host_fail("swapped-slot", "part %u of '%s' was written and never sent out", part, b->name);
    }
}

void check_leave(void) {
    const host_transfer_t *t = dma_any();
    if (t) host_fail("forgotten-wait", "the step ends, and nobody waited for %s", dma_name(t));
    memory_check_guards();
    if (host.calls != step()->tile_count)
        host_fail("tile-count", "%u kernel calls in a step of %u tiles", host.calls, step()->tile_count);
    check_slots();
    check_coverage();
    for (uint32_t i = 0; i < step()->cover_count; i++) free(covers[i].in), free(covers[i].out);
    free(covers);
    covers = NULL;
}

/* Called after hal_step has made the step the current one. */
void check_enter(void) {
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++) {
        const hal_sim_buffer_t *b = &hal_sim.buffers[i];
        if (b->kind != HAL_SIM_SLOT) continue;
        memset(levels[b->level].marks + b->address, 0, b->bytes);
        slots[i] = (slot_state_t){0};
    }
    covers = host_allocate(step()->cover_count, sizeof *covers);
    for (uint32_t i = 0; i < step()->cover_count; i++) {
        covers[i].in = host_allocate(step()->covers[i].bytes + 1ull, sizeof(int32_t));
        covers[i].out = host_allocate(step()->covers[i].bytes + 1ull, sizeof(int32_t));
    }
}

static void check_map(const hal_sim_step_t *s) {
    for (const hal_sim_cover_t *c = s->covers; c < s->covers + s->cover_count; c++) {
        if (c->buffer >= hal_sim.buffer_count) host_usage("simulation map: '%s' covers buffer %u", s->name, c->buffer);
        const hal_sim_buffer_t *b = &hal_sim.buffers[c->buffer];
        if (b->level != c->hop + 1)
            host_usage("simulation map: '%s' covers '%s' in %s through hop %u, whose outer level is another", s->name,
                       b->name, hal_sim.levels[b->level].name, c->hop);
        if (c->offset > b->bytes || c->bytes > b->bytes - c->offset)
            host_usage("simulation map: '%s' covers bytes %u to %llu of '%s', which has %u", s->name, c->offset,
                       (unsigned long long)c->offset + c->bytes, b->name, b->bytes);
    }
}

void check_init(void) {
    levels = host_allocate(hal_sim.level_count, sizeof *levels);
    slots = host_allocate(hal_sim.buffer_count, sizeof *slots);
    for (uint32_t i = 0; i < hal_sim.level_count; i++) {
        levels[i].marks = host_allocate(hal_sim.levels[i].bytes, 1);
        levels[i].readers = host_allocate(hal_sim.levels[i].bytes, 1);
        levels[i].writers = host_allocate(hal_sim.levels[i].bytes, 1);
    }
    for (uint32_t i = 0; i < hal_sim.step_count; i++) check_map(&hal_sim.steps[i]);
}
