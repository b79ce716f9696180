/* The trace that the plan prescribes: for each operand the boxes in the order of the step's loops, and for each kernel
 * call the arguments. A step's program may interleave operands as it likes; each box must come, be used and leave in
 * this order, in the slot whose turn it is. Boxes of an operand are numbered from 1 per hop. */
#include "hal_loops.h"

#include <stdlib.h>
#include <string.h>

#define NEAR 64u /* bytes around a box in which a stray write is likely its operand's */

/* The transfers of an operand through a hop in one direction: `at` is the box that is due. */
typedef struct {
    loop_at_t at;
    uint32_t started, done;
} box_queue_t;

/* The boxes in the parts of a slot: the one that came in last, the one written last; 0 for none. */
typedef struct {
    box_queue_t in, out;
    uint32_t held[HOST_PARTS], written[HOST_PARTS];
} hop_state_t;

typedef struct {
    hop_state_t hops[2];
    uint32_t box, finished; /* of the kernel call that is due; boxes of which the last call ran */
} operand_state_t;

static operand_state_t **states; /* by step: of the one that runs, and those whose transfers began before them */
static loop_at_t due; /* of the next kernel call */

static operand_state_t *state_of(const hal_sim_operand_t *o) { return &states[host.owner][o - step()->operands]; }
static const hal_sim_operand_t *operands_end(void) { return step()->operands + step()->operand_count; }
static uint32_t comes_in(const hal_sim_operand_t *o) { return o->in && !(o->overwritten && order_resets()); }
static uint32_t outermost(const hal_sim_operand_t *o) { return o->stage != HAL_SIM_NONE; }
static uint32_t slots_at(const hal_sim_operand_t *o, uint32_t hop) { return hop ? o->stage : o->slot; }

static void advance_boxes(box_queue_t *queue, const hal_sim_operand_t *o, uint32_t hop) {
    queue->started++;
    if (hop) queue->done = !loop_next_part(&queue->at, o->stage_moving_dims);
    else queue->done = !loop_next_tile(&queue->at, o->moving_dims) && !loop_next_part(&queue->at, step()->dim_count);
}

/* ---- slots ---- */

static uint32_t part_bytes(const hal_sim_buffer_t *b) { return b->bytes / b->parts; }

/* The part of the slot whose turn it is. */
static uint32_t part_at(const hal_sim_operand_t *o, const loop_at_t *at, uint32_t hop) {
    const uint32_t before = hop ? loop_stage_box(o, at) - 1 : loop_boxes_before(o, at);
    return before % hal_sim.buffers[slots_at(o, hop)].parts;
}

static uint32_t part_offset(const hal_sim_operand_t *o, const loop_at_t *at, uint32_t hop) {
    const hal_sim_buffer_t *slots = &hal_sim.buffers[slots_at(o, hop)];
    return slots->address + part_at(o, at, hop) * part_bytes(slots);
}

/* The operand whose boxes pass that slot in that direction, or NULL. */
static const hal_sim_operand_t *find_operand(uint32_t hop, uint32_t inward, const hal_sim_buffer_t *slots) {
    const uint32_t number = (uint32_t)(slots - hal_sim.buffers);
    for (const hal_sim_operand_t *o = step()->operands; o < operands_end(); o++)
        if (slots_at(o, hop) == number && (inward ? comes_in(o) : o->out)) return o;
    return NULL;
}

/* ---- transfers ---- */

/* A transfer that begins; `transfer` is NULL where it moves no bytes. */
typedef struct {
    const host_transfer_t *transfer;
    uint32_t hop, inward;
    const host_place_t *inner;
    const hal_sim_operand_t *operand;
} move_t;

static const char *direction_text(uint32_t hop, uint32_t inward) {
    return host_text("%s through hop %u", inward ? "in" : "out", hop);
}

static const char *move_text(const move_t *m) {
    if (m->transfer) return dma_name(m->transfer);
    return host_text("an empty transfer %s, %s,", direction_text(m->hop, m->inward), memory_name(m->inner));
}

static const char *slot_text(const hal_sim_operand_t *o, uint32_t hop, uint32_t part) {
    return host_text("part %u of '%s'", part, hal_sim.buffers[slots_at(o, hop)].name);
}

/* What was written into the part must have been sent before another box is. */
static void check_sent(const move_t *m, uint32_t hop, uint32_t part, uint32_t box) {
    const hop_state_t *s = &state_of(m->operand)->hops[hop];
    if (s->written[part] != box && s->written[part] > s->out.started)
        host_fail("swapped-slot", "%s overwrites box %u in %s, which was never sent out", move_text(m), s->written[part],
                  slot_text(m->operand, hop, part));
}

/* What came into the part must have been used before another box does. */
static void check_used(const move_t *m, uint32_t part) {
    const operand_state_t *state = state_of(m->operand);
    const uint32_t held = state->hops[m->hop].held[part];
    const box_queue_t *inner = &state->hops[0].in;
    const uint32_t used = m->hop ? inner->done || loop_stage_box(m->operand, &inner->at) > held : state->finished >= held;
    if (!used)
        host_fail("swapped-slot", "%s overwrites box %u in %s, which is still needed", move_text(m), held,
                  slot_text(m->operand, m->hop, part));
}

static void check_stage_holds(const move_t *m, const loop_at_t *at) {
    const uint32_t box = loop_stage_box(m->operand, at), part = part_at(m->operand, at, 1);
    const uint32_t held = state_of(m->operand)->hops[1].held[part];
    if (held != box)
        host_fail("swapped-slot", "%s reads box %u from %s, which %s", move_text(m), box, slot_text(m->operand, 1, part),
                  held ? host_text("holds box %u", held) : "nobody filled in this step");
}

static void enter_slot(const move_t *m, uint32_t part) {
    hop_state_t *s = &state_of(m->operand)->hops[m->hop];
    check_used(m, part);
    if (m->operand->out) check_sent(m, m->hop, part, 0);
    if (!m->hop && m->operand->stage != HAL_SIM_NONE) check_stage_holds(m, &s->in.at);
    s->held[part] = s->in.started + 1;
}

/* A box of the stage is finished when all boxes of the part went out into it. */
static uint32_t is_finished(const move_t *m, uint32_t box) {
    const operand_state_t *state = state_of(m->operand);
    const box_queue_t *inner = &state->hops[0].out;
    return m->hop ? inner->done || loop_stage_box(m->operand, &inner->at) > box : state->finished >= box;
}

static void leave_slot(const move_t *m, uint32_t part) {
    hop_state_t *s = &state_of(m->operand)->hops[m->hop];
    const uint32_t box = s->out.started + 1, held = s->written[part];
    if (held != box || !is_finished(m, box))
        host_fail("stale-egress", "%s sends box %u from %s, which %s", move_text(m), box,
                  slot_text(m->operand, m->hop, part), held == box ? "is not finished" : host_text("holds box %u", held));
    if (m->hop || m->operand->stage == HAL_SIM_NONE) return;
    const uint32_t to = part_at(m->operand, &s->out.at, 1), stage = loop_stage_box(m->operand, &s->out.at);
    check_sent(m, 1, to, stage);
    state_of(m->operand)->hops[1].written[to] = stage;
}

static host_box_t wanted_box(const move_t *m, const loop_at_t *at) {
    const hal_sim_operand_t *o = m->operand;
    const uint32_t staged = !m->hop && o->stage != HAL_SIM_NONE;
    host_box_t wanted = loop_box(o, at, m->hop, staged);
    wanted.start += staged ? part_offset(o, at, 1) : hal_sim.buffers[o->home].address;
    return wanted;
}

static void check_box(const move_t *m, const box_queue_t *queue) {
    const uint32_t inner = part_offset(m->operand, &queue->at, m->hop);
    const host_box_t wanted = wanted_box(m, &queue->at);
    const host_box_t found = m->transfer ? loop_moved_box(&m->transfer->outer) : (host_box_t){0};
    const uint32_t same = m->transfer ? loop_same_box(&wanted, &found) : !wanted.bytes;
    if (same && m->inner->offset == inner) return;
    const char *level = hal_sim.levels[m->hop].name;
    host_fail("trace", "transfer %u of operand '%s' %s, of tile %s, is to move %s and %s + 0x%x, found %s and %s + 0x%x",
              queue->started, m->operand->arg, direction_text(m->hop, m->inward), loop_text(&queue->at, m->hop),
              loop_box_text(m->hop + 1, &wanted), level, inner, m->transfer ? loop_box_text(m->hop + 1, &found) : "0 B", level,
              m->inner->offset);
}

static void begin_boxes(box_queue_t *queue, uint32_t moves) {
    queue->done = !moves;
    loop_begin_part(&queue->at);
}

/* Of a step that begins, or of which the first transfer does. */
static void enter_state(uint32_t of) {
    if (states[of]) return;
    states[of] = host_allocate(step()->operand_count, sizeof **states);
    for (const hal_sim_operand_t *o = step()->operands; o < operands_end(); o++) {
        operand_state_t *state = state_of(o);
        state->box = 1;
        for (uint32_t hop = 0; hop < 2; hop++) {
            const uint32_t moves = slots_at(o, hop) != HAL_SIM_NONE;
            begin_boxes(&state->hops[hop].in, moves && comes_in(o));
            begin_boxes(&state->hops[hop].out, moves && o->out);
        }
    }
}

/* The operand of this step, or of a later one whose first ingress starts in this, which then owns the transfer. */
static const hal_sim_operand_t *find_owner(uint32_t hop, uint32_t inward, const hal_sim_buffer_t *slots) {
    const hal_sim_operand_t *o = find_operand(hop, inward, slots);
    for (const hal_sim_cross_step_t *c = NULL; inward && !o && (c = cross_step_next(host.step, c));) {
        host.owner = c->step;
        o = find_operand(hop, inward, slots);
        if (o && (o != &step()->operands[c->operand] || hop != outermost(o))) o = NULL;
    }
    if (!o) host.owner = host.step;
    return o;
}

/* A transfer of a later step is its operand's first, and starts before this step's kernels. */
static void check_early(const move_t *m, const box_queue_t *queue) {
    if (host.owner != host.step && (queue->started || host.calls))
        host_fail("trace", "%s: step %u fetches that itself, but for the first box, which comes before kernel call 0",
                  move_text(m), host.owner);
}

static uint32_t awaited(const move_t *m) {
    const hal_sim_cross_step_t *c = m->hop == outermost(m->operand) ? cross_step_of(host.owner, m->operand, 0) : NULL;
    return c && !m->inward ? c->at : host.owner;
}

static uint32_t trace_owned(const host_transfer_t *t, uint32_t hop, uint32_t inward, const host_place_t *inner) {
    const hal_sim_operand_t *o = find_owner(hop, inward, inner->buffer);
    const move_t m = {t, hop, inward, inner, o};
    if (!o) host_fail("trace", "%s: the plan moves nothing %s there in this step", move_text(&m), direction_text(hop, inward));
    enter_state(host.owner);
    hop_state_t *s = &state_of(o)->hops[hop];
    box_queue_t *queue = inward ? &s->in : &s->out;
    if (queue->done)
        host_fail("trace", "%s: operand '%s' has no more than %u transfers %s in this step", move_text(&m), o->arg,
                  queue->started, direction_text(hop, inward));
    check_early(&m, queue);
    check_box(&m, queue);
    (inward ? enter_slot : leave_slot)(&m, part_at(o, &queue->at, hop));
    advance_boxes(queue, o, hop);
    return awaited(&m);
}

uint32_t trace_transfer(const host_transfer_t *t, uint32_t hop, uint32_t inward, const host_place_t *inner) {
    const uint32_t until = trace_owned(t, hop, inward, inner);
    host.owner = host.step;
    return until;
}

/* ---- kernels ---- */

static void visit_runs(const host_box_t *box, uint32_t axis, uint32_t memory, uint32_t start, host_visit_t visit) {
    if (!axis) {
        visit(memory, start, box->levels[0].count);
        return;
    }
    for (uint32_t i = 0; i < box->levels[axis].count; i++)
        visit_runs(box, axis - 1, memory, start + i * box->levels[axis].stride, visit);
}

/* The level of the memory that the kernel finds an operand in: of its slots, or of its home. */
static uint32_t kernel_level(const hal_sim_operand_t *o) {
    return o->slot == HAL_SIM_NONE ? hal_sim.buffers[o->home].level : 0;
}

/* The box of the tile in that level: packed in a slot, or a part of the home. */
static host_box_t inner_box(const hal_sim_operand_t *o, const loop_at_t *at) {
    host_box_t box = loop_box(o, at, 0, 0);
    const uint32_t packed = box.bytes;
    if (o->slot == HAL_SIM_NONE) box.start += hal_sim.buffers[o->home].address;
    else box = (host_box_t){.start = part_offset(o, at, 0), .bytes = packed, .rank = 1, .levels = {{packed, 1}}};
    return box;
}

static void check_pointer(const hal_sim_operand_t *o, const void *args) {
    const uint8_t *found, *wanted = hal_sim.levels[kernel_level(o)].memory + inner_box(o, &due).start;
    memcpy(&found, (const uint8_t *)args + o->offset, sizeof found);
    guard_accept((const uint8_t *)args + o->offset, sizeof found); /* the step may have written it */
    if (found == wanted) return;
    host_fail("argument", "operand '%s' of kernel call %u, of tile %s, is to be %s, found %s", o->arg, host.calls,
              loop_text(&due, 0), memory_text(wanted), memory_text(found));
}

static uint32_t is_at_end(uint32_t last) {
    for (const hal_sim_dim_t *dim = step()->dims; dim < step()->dims + step()->dim_count; dim++) {
        const uint32_t piece = due.pieces[dim - step()->dims];
        if (dim->reduction && piece != (last ? dim->ends[dim->parts - 1] - 1 : 0)) return 0;
    }
    return 1;
}

static uint32_t value_at(const hal_sim_scalar_t *s) {
    const hal_sim_operand_t *o = &step()->operands[s->index];
    uint32_t product = 1, word;
    switch (s->kind) {
    case HAL_SIM_EXTENT: return step()->dims[s->index].pieces[due.pieces[s->index]].length;
    case HAL_SIM_START: return step()->dims[s->index].pieces[due.pieces[s->index]].first;
    case HAL_SIM_FIRST: return is_at_end(0);
    case HAL_SIM_LAST: return is_at_end(1);
    case HAL_SIM_FLAG: return order_resets();
    case HAL_SIM_LENGTH: return loop_span(&o->axes[s->axis], &due)->length;
    case HAL_SIM_STRIDE:
        for (uint32_t i = s->axis + 1; i < o->rank; i++) product *= loop_span(&o->axes[i], &due)->length;
        return product;
    case HAL_SIM_ENTRY: return (uint32_t)((const int32_t *)s->table)[due.pieces[s->index]];
    case HAL_SIM_NUMBER: return memcpy(&word, s->table, sizeof word), word;
    default: return s->value;
    }
}

static void check_scalar(const hal_sim_scalar_t *s, const void *args) {
    const void *pointer;
    uint32_t found;
    if (s->kind == HAL_SIM_NULL) {
        memcpy(&pointer, (const uint8_t *)args + s->offset, sizeof pointer);
        guard_accept((const uint8_t *)args + s->offset, sizeof pointer);
        if (pointer)
            host_fail("argument", "operand '%s' of kernel call %u is to be NULL, found %s", s->name, host.calls,
                      memory_text(pointer));
        return;
    }
    memcpy(&found, (const uint8_t *)args + s->offset, sizeof found);
    guard_accept((const uint8_t *)args + s->offset, sizeof found);
    const uint32_t wanted = value_at(s);
    if (found != wanted)
        host_fail("argument", "'%s' of kernel call %u, of tile %s, is to be %d (0x%x), found %d (0x%x)", s->name,
                  host.calls, loop_text(&due, 0), (int)wanted, wanted, (int)found, found);
}

static void use_slot(const hal_sim_operand_t *o) {
    operand_state_t *state = state_of(o);
    const uint32_t part = part_at(o, &due, 0), held = state->hops[0].held[part];
    if (comes_in(o) && held != state->box)
        host_fail("swapped-slot", "kernel call %u reads box %u of operand '%s' from part %u of '%s', which %s", host.calls,
                  state->box, o->arg, part, hal_sim.buffers[o->slot].name,
                  held ? host_text("holds box %u", held) : "nobody filled in this step");
    if (!o->out) return;
    const uint32_t written = state->hops[0].written[part];
    if (written != state->box && written > state->hops[0].out.started)
        host_fail("swapped-slot", "kernel call %u overwrites box %u in part %u of '%s', which was never sent out",
                  host.calls, written, part, hal_sim.buffers[o->slot].name);
    state->hops[0].written[part] = state->box;
}

void trace_kernel(const void *args) {
    for (const hal_sim_operand_t *o = step()->operands; o < operands_end(); o++) check_pointer(o, args);
    for (uint32_t i = 0; i < step()->scalar_count; i++) check_scalar(&step()->scalars[i], args);
    for (const hal_sim_operand_t *o = step()->operands; o < operands_end(); o++)
        if (o->slot != HAL_SIM_NONE) use_slot(o);
}

void trace_each_written(host_visit_t visit) {
    for (const hal_sim_operand_t *o = step()->operands; o < operands_end(); o++) {
        const host_box_t box = inner_box(o, &due);
        if (o->writes && box.bytes) visit_runs(&box, box.rank - 1, kernel_level(o), box.start, visit);
    }
}

static uint32_t box_end(const host_box_t *box) {
    uint32_t end = box->start + 1;
    for (uint32_t i = 0; i < box->rank; i++) end += (box->levels[i].count - 1) * box->levels[i].stride;
    return end;
}

uint32_t trace_works_in(uint32_t level) {
    uint32_t works = !level;
    for (const hal_sim_operand_t *o = step()->operands; o < operands_end(); o++) works |= o->writes && kernel_level(o) == level;
    return works;
}

const char *trace_beside(uint32_t level, uint32_t at) {
    for (const hal_sim_operand_t *o = step()->operands; o < operands_end(); o++) {
        const host_box_t box = inner_box(o, &due);
        if (!o->writes || !box.bytes || kernel_level(o) != level) continue;
        const uint32_t end = box_end(&box);
        const char *tile = host_text("the box of operand '%s' in tile %s", o->arg, loop_text(&due, 0));
        if (at >= end && at - end < NEAR) return host_text(", %u B past the end of %s", at - end, tile);
        if (at < box.start && box.start - at <= NEAR) return host_text(", %u B before %s", box.start - at, tile);
        if (at >= box.start && at < end) return host_text(", between the runs of %s", tile);
    }
    return "";
}

void trace_kernel_done(void) {
    for (const hal_sim_operand_t *o = step()->operands; o < operands_end(); o++)
        if (loop_ends_box(o, &due)) state_of(o)->finished++;
    if (!loop_next_tile(&due, step()->dim_count)) loop_next_part(&due, step()->dim_count);
    for (const hal_sim_operand_t *o = step()->operands; o < operands_end(); o++)
        if (loop_begins_box(o, &due)) state_of(o)->box++;
}

/* ---- a step's beginning and end ---- */

void trace_enter(void) {
    memset(&due, 0, sizeof due);
    loop_begin_part(&due);
    enter_state(host.step);
}

static void check_done(const hal_sim_operand_t *o, uint32_t hop, uint32_t inward) {
    const hop_state_t *s = &state_of(o)->hops[hop];
    const box_queue_t *queue = inward ? &s->in : &s->out;
    if (!queue->done)
        host_fail("trace", "the step ends without transfer %u of operand '%s' %s, of tile %s", queue->started, o->arg,
                  direction_text(hop, inward), loop_text(&queue->at, hop));
}

/* The first boxes of later steps, which were to start in this one. */
static void check_begun(void) {
    for (const hal_sim_cross_step_t *c = NULL; (c = cross_step_next(host.step, c));) {
        const hal_sim_operand_t *o = &hal_sim.steps[c->step].operands[c->operand];
        const uint32_t begun = states[c->step] && states[c->step][c->operand].hops[outermost(o)].in.started;
        if (comes_in(o) && !begun)
            host_fail("trace", "the step ends without the first transfer of operand '%s' of step %u, which was to start in it",
                      o->arg, c->step);
    }
}

void trace_leave(void) {
    for (const hal_sim_operand_t *o = step()->operands; o < operands_end(); o++)
        for (uint32_t way = 0; way < 4; way++) check_done(o, way / 2, way % 2);
    check_begun();
    free(states[host.step]);
    states[host.step] = NULL;
}

void trace_init(void) {
    states = host_allocate(hal_sim.step_count, sizeof *states);
    loop_check_map();
}
