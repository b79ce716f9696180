/* The transfers of the simulator: copied early, late or at random between start and wait, timed by one engine per hop
 * and direction. The clock does not depend on the moment of the copy. */
#include "hal_host.h"

#include <stdio.h>
#include <stdlib.h>

static host_transfer_t *transfers; /* those that crossed into this step, then its own, in the order of their start */
static uint32_t carried, count, capacity, first_pending;
static hal_ticket_t first_ticket = 1; /* of this step's own */
static uint64_t (*engine_free)[2];    /* by hop and direction */
static uint32_t random_state;

void dma_init(void) {
    engine_free = host_allocate(hal_sim.level_count, sizeof *engine_free);
    random_state = host.seed * 2246822519u | 1;
}

void dma_enter(void) {
    first_ticket += count - carried;
    carried = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!transfers[i].waited) transfers[carried++] = transfers[i];
    count = carried;
    first_pending = 0;
    for (uint32_t i = 0; i < carried; i++)
        if (transfers[i].inward) memory_close(transfers[i].inner.base, transfers[i].bytes);
}

/* ---- sides ---- */

const host_side_t *dma_source(const host_transfer_t *t) { return t->inward ? &t->outer : &t->inner; }
const host_side_t *dma_target(const host_transfer_t *t) { return t->inward ? &t->inner : &t->outer; }

uint32_t side_lines(const host_side_t *side) { return side->count * side->planes; }

static uint32_t line_distance(const host_side_t *side, uint32_t line) {
    return line / side->count * side->plane_stride + line % side->count * side->stride;
}

uint32_t side_run(const host_side_t *side, uint32_t line) { return side->place.offset + line_distance(side, line); }

/* From the first byte to the last, which 32 bits need not hold. */
static uint64_t side_extent(const host_side_t *side) {
    return (uint64_t)(side->planes - 1) * side->plane_stride + (uint64_t)(side->count - 1) * side->stride + side->run;
}

static void gather(uint8_t *packed, const host_side_t *side) {
    for (uint32_t i = 0; i < side_lines(side); i++, packed += side->run)
        memory_copy(packed, side->base + line_distance(side, i), side->run);
}

static void scatter(const host_side_t *side, const uint8_t *packed) {
    for (uint32_t i = 0; i < side_lines(side); i++, packed += side->run)
        memory_store(side->base + line_distance(side, i), packed, side->run);
}

/* The packed index of the first byte that differs. */
static uint32_t side_difference(const host_side_t *side, const uint8_t *packed) {
    for (uint32_t i = 0; i < side_lines(side); i++) {
        const uint32_t at = memory_difference(packed + i * side->run, side->base + line_distance(side, i), side->run);
        if (at < side->run) return i * side->run + at;
    }
    return side_lines(side) * side->run;
}

/* ---- in flight ---- */

const char *dma_name(const host_transfer_t *t) {
    return host_text("ticket %u (hop %u %s, %s %s %s, %u B in %u lines)", t->ticket, t->hop, t->inward ? "in" : "out",
                     memory_name(&t->inner.place), t->inward ? "<-" : "->", memory_name(&t->outer.place), t->bytes,
                     side_lines(&t->outer));
}

const host_transfer_t *dma_any(void) {
    while (first_pending < count && transfers[first_pending].waited) first_pending++;
    return first_pending < count ? &transfers[first_pending] : NULL;
}

const host_transfer_t *dma_due(void) {
    dma_any();
    for (const host_transfer_t *t = transfers + first_pending; t < transfers + count; t++)
        if (!t->waited && t->until <= host.step) return t;
    return NULL;
}

/* The first byte of the level's range that a run of the side holds, else UINT32_MAX. */
static uint32_t first_common(const host_side_t *side, uint32_t start, uint32_t end) {
    for (uint32_t plane = 0; plane < side->planes; plane++) {
        const uint32_t base = side->place.offset + plane * side->plane_stride;
        uint32_t line = 0;
        if (base + side->run <= start) {
            if (!side->stride) continue;
            line = (start - base - side->run) / side->stride + 1;
        }
        const uint32_t run = base + line * side->stride;
        if (line < side->count && run < end) return run > start ? run : start;
    }
    return UINT32_MAX;
}

const host_transfer_t *dma_touching(uint32_t level, uint32_t start, uint32_t end, uint32_t writes) {
    dma_any();
    for (const host_transfer_t *t = transfers + first_pending; t < transfers + count; t++) {
        const host_side_t *side = writes ? dma_target(t) : dma_source(t);
        if (!t->waited && side->place.level == level && first_common(side, start, end) != UINT32_MAX) return t;
    }
    return NULL;
}

static uint32_t sides_meet(const host_side_t *a, const host_side_t *b) {
    const uint32_t first = b->place.offset, end = first + (uint32_t)side_extent(b);
    if (a->place.level != b->place.level || first_common(a, first, end) == UINT32_MAX) return UINT32_MAX;
    for (uint32_t i = 0; i < side_lines(b); i++) {
        const uint32_t start = side_run(b, i), at = first_common(a, start, start + b->run);
        if (at != UINT32_MAX) return at;
    }
    return UINT32_MAX;
}

const host_transfer_t *dma_meeting(const host_side_t *side, uint32_t writes, uint32_t *at) {
    dma_any();
    for (const host_transfer_t *t = transfers + first_pending; t < transfers + count; t++) {
        *at = t->waited ? UINT32_MAX : sides_meet(writes ? dma_target(t) : dma_source(t), side);
        if (*at != UINT32_MAX) return t;
    }
    return NULL;
}

static void move(host_transfer_t *t) {
    uint8_t *packed = host_allocate(1, t->bytes);
    gather(packed, dma_source(t));
    scatter(dma_target(t), packed);
    free(packed);
    t->copied = 1;
}

/* Random order: visits what is pending from a random place on, so that any subset may end, the later ones first. */
void dma_tick(void) {
    if (host.dma_order != HOST_RANDOM || !dma_any()) return;
    const uint32_t pending = count - first_pending, from = host_random(&random_state) % pending;
    for (uint32_t i = 0; i < pending; i++) {
        host_transfer_t *t = &transfers[first_pending + (from + i) % pending];
        if (!t->waited && !t->copied && host_random(&random_state) >> 16 & 1) move(t);
    }
}

/* ---- start ---- */

static void place_side(const host_transfer_t *t, host_side_t *side, uint32_t level, const char *which) {
    const uint64_t extent = side_extent(side);
    const uint32_t bytes = extent > UINT32_MAX ? UINT32_MAX : (uint32_t)extent;
    if (!memory_find(&side->place, side->base, bytes))
        host_fail("outside-buffer", "the %s range of a transfer %s through hop %u, %u B in %u lines over %llu B, "
                  "is not inside one live buffer: %s", which, t->inward ? "in" : "out", t->hop, t->bytes, side_lines(side),
                  (unsigned long long)extent, memory_where(side->base, bytes));
    if (side->place.level != level)
        host_fail("outside-buffer", "the %s side of a transfer through hop %u lies in %s, not in %s", which, t->hop,
                  memory_name(&side->place), hal_sim.levels[level].name);
}

static host_transfer_t *append(void) {
    if (count == capacity) {
        capacity = capacity ? 2 * capacity : 64;
        host_transfer_t *grown = realloc(transfers, capacity * sizeof *grown);
        if (!grown) host_usage("the simulator has no memory for %u transfers of one step", capacity);
        transfers = grown;
    }
    return &transfers[count++];
}

/* Returns the moment at which the transfer ends. */
static uint64_t occupy_engine(const host_transfer_t *t) {
    const hal_sim_hop_t *hop = &hal_sim.hops[t->hop];
    const hal_sim_dma_t *dma = t->inward ? &hop->in : &hop->out;
    uint64_t *engine = &engine_free[t->hop][hop->shared ? 0 : t->inward];
    const uint64_t share = 1000 + (t->hop ? 0 : hal_sim.steps[host.step].contention);
    const uint64_t bytes_milli = (uint64_t)t->bytes * dma->byte_milli * share / 1000;
    const uint64_t milli = bytes_milli + (uint64_t)side_lines(&t->outer) * dma->line_milli;
    host.now += hop->issue;
    const uint64_t begin = host.now > *engine ? host.now : *engine;
    *engine = begin + dma->setup + (milli + 999) / 1000;
    return *engine;
}

static void begin(host_transfer_t *t) {
    t->snapshot = host_allocate(1, t->bytes);
    gather(t->snapshot, dma_source(t));
    t->end = occupy_engine(t);
    if (t->inward) {
        memory_poison(t->inner.base, t->bytes);
        memory_close(t->inner.base, t->bytes);
    }
    if (host.dma_order == HOST_EARLY) move(t);
    if (host.trace) fprintf(stderr, "%12llu start %s ends %llu\n", (unsigned long long)host.now, dma_name(t),
                            (unsigned long long)t->end);
}

static hal_ticket_t start(uint32_t hop, uint32_t inward, host_side_t outer, const void *inner) {
    dma_tick();
    if (host.step == HAL_NO_STEP) host_fail("order", "a transfer through hop %u outside of any step", hop);
    if (hop + 1 >= hal_sim.level_count)
        host_fail("outside-buffer", "a transfer through hop %u of %u levels", hop, hal_sim.level_count);
    const uint64_t bytes = (uint64_t)outer.run * outer.count * outer.planes;
    if (!bytes) {
        check_empty(hop, inward, inner);
        return HAL_DONE;
    }
    if (bytes > UINT32_MAX) host_fail("outside-buffer", "a transfer of %llu B", (unsigned long long)bytes);
    const host_side_t packed = {.base = (uint8_t *)(uintptr_t)inner, .run = (uint32_t)bytes, .count = 1, .planes = 1};
    host_transfer_t t = {.ticket = first_ticket + count - carried, .hop = hop, .inward = inward, .bytes = (uint32_t)bytes,
                         .inner = packed, .outer = outer};
    place_side(&t, &t.inner, hop, "inner");
    place_side(&t, &t.outer, hop + 1, "outer");
    check_conflicts(&t);
    const hal_sim_copy_t *copy = copies_begin(&t);
    t.until = copy ? copy->until : trace_transfer(&t, hop, inward, &t.inner.place);
    guard_source(dma_source(&t));
    begin(&t);
    *append() = t;
    return t.ticket;
}

static host_side_t box(const void *base, uint32_t run, uint32_t lines, uint32_t stride, uint32_t planes,
                       uint32_t plane_stride) {
    return (host_side_t){.base = (uint8_t *)(uintptr_t)base, .run = run, .count = lines, .stride = stride,
                         .planes = planes, .plane_stride = plane_stride};
}

hal_ticket_t hal_dma_in_1d(uint32_t hop, void *inner, const void *outer, uint32_t bytes) {
    return start(hop, 1, box(outer, bytes, 1, 0, 1, 0), inner);
}

hal_ticket_t hal_dma_in_2d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t lines,
                           uint32_t stride) {
    return start(hop, 1, box(outer, run, lines, stride, 1, 0), inner);
}

hal_ticket_t hal_dma_in_3d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t lines, uint32_t stride,
                           uint32_t planes, uint32_t plane_stride) {
    return start(hop, 1, box(outer, run, lines, stride, planes, plane_stride), inner);
}

hal_ticket_t hal_dma_out_1d(uint32_t hop, void *outer, const void *inner, uint32_t bytes) {
    return start(hop, 0, box(outer, bytes, 1, 0, 1, 0), inner);
}

hal_ticket_t hal_dma_out_2d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t lines,
                            uint32_t stride) {
    return start(hop, 0, box(outer, run, lines, stride, 1, 0), inner);
}

hal_ticket_t hal_dma_out_3d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t lines, uint32_t stride,
                            uint32_t planes, uint32_t plane_stride) {
    return start(hop, 0, box(outer, run, lines, stride, planes, plane_stride), inner);
}

/* ---- wait ---- */

static host_transfer_t *carried_ticket(hal_ticket_t ticket) {
    for (uint32_t i = 0; i < carried; i++)
        if (transfers[i].ticket == ticket) return &transfers[i];
    host_fail("double-wait", "ticket %u belongs to an earlier step, whose tickets were all waited for", ticket);
}

static host_transfer_t *find_ticket(hal_ticket_t ticket) {
    const hal_ticket_t next = first_ticket + count - carried;
    if (ticket >= next) host_fail("unknown-ticket", "ticket %u was never given out; the next is %u", ticket, next);
    host_transfer_t *t = ticket < first_ticket ? carried_ticket(ticket) : &transfers[carried + ticket - first_ticket];
    if (t->waited) host_fail("double-wait", "%s was waited for already", dma_name(t));
    return t;
}

/* The data's own evidence, for accesses that the argument structs do not show. */
static void check_untouched(const host_transfer_t *t) {
    const uint32_t changed = side_difference(dma_source(t), t->snapshot);
    if (changed < t->bytes)
        host_fail("write-while-read", "byte %u of the source of %s changed between start and wait", changed,
                  dma_name(t));
    if (!t->inward) return;
    const uint32_t written =
        t->copied ? side_difference(&t->inner, t->snapshot) : memory_unpoisoned(t->inner.base, t->bytes);
    if (written < t->bytes)
        host_fail("forgotten-wait", "byte %u of the destination of %s was written before the wait", written,
                  dma_name(t));
}

void hal_dma_wait(hal_ticket_t ticket) {
    dma_tick();
    if (ticket == HAL_DONE) return;
    host_transfer_t *t = find_ticket(ticket);
    check_untouched(t);
    if (!t->copied) move(t);
    if (t->inward) memory_open(t->inner.base, t->bytes);
    free(t->snapshot);
    t->snapshot = NULL;
    t->waited = 1;
    host.now = (host.now > t->end ? host.now : t->end) + hal_sim.hops[t->hop].wait;
    if (host.trace) fprintf(stderr, "%12llu ended %s\n", (unsigned long long)host.now, dma_name(t));
}
