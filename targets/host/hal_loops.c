/* The loops of a step over the tables of the map: which tile comes next, and what it touches of a tensor. */
#include "hal_loops.h"

/* ---- positions ---- */

static uint32_t first_piece(const hal_sim_dim_t *dim, uint32_t part) { return part ? dim->ends[part - 1] : 0; }

void loop_begin_part(loop_at_t *at) {
    for (uint32_t i = 0; i < step()->dim_count; i++) at->pieces[i] = first_piece(&step()->dims[i], at->parts[i]);
}

/* Goes on along the first `moving_dims` dims of the tile loop; 0 at the end of the part, where it begins again. */
uint32_t loop_next_tile(loop_at_t *at, uint32_t moving_dims) {
    for (uint32_t i = moving_dims; i-- > 0;) {
        const hal_sim_dim_t *dim = &step()->dims[i];
        if (++at->pieces[i] < dim->ends[at->parts[i]]) return 1;
        at->pieces[i] = first_piece(dim, at->parts[i]);
    }
    return 0;
}

/* The same along the first `moving_dims` dims of the stage's loop; 0 at the end of the step. */
uint32_t loop_next_part(loop_at_t *at, uint32_t moving_dims) {
    uint32_t more = 0;
    for (uint32_t i = moving_dims; i-- > 0 && !more;) {
        const uint32_t dim = step()->stage_order[i];
        more = ++at->parts[dim] < step()->dims[dim].parts;
        if (!more) at->parts[dim] = 0;
    }
    loop_begin_part(at);
    return more;
}

/* How many boxes of the operand come before this tile's in the part. */
uint32_t loop_boxes_before(const hal_sim_operand_t *o, const loop_at_t *at) {
    uint32_t boxes = 0;
    for (uint32_t i = 0; i < o->moving_dims; i++) {
        const uint32_t first = first_piece(&step()->dims[i], at->parts[i]);
        boxes = boxes * (step()->dims[i].ends[at->parts[i]] - first) + at->pieces[i] - first;
    }
    return boxes;
}

/* The number of the part's box in the stage. */
uint32_t loop_stage_box(const hal_sim_operand_t *o, const loop_at_t *at) {
    uint32_t boxes = 0;
    for (uint32_t i = 0; i < o->stage_moving_dims; i++) {
        const uint32_t dim = step()->stage_order[i];
        boxes = boxes * step()->dims[dim].parts + at->parts[dim];
    }
    return boxes + 1;
}

uint32_t loop_begins_box(const hal_sim_operand_t *o, const loop_at_t *at) {
    for (uint32_t i = o->moving_dims; i < step()->dim_count; i++)
        if (at->pieces[i] > first_piece(&step()->dims[i], at->parts[i])) return 0;
    return 1;
}

uint32_t loop_ends_box(const hal_sim_operand_t *o, const loop_at_t *at) {
    for (uint32_t i = o->moving_dims; i < step()->dim_count; i++)
        if (at->pieces[i] + 1 < step()->dims[i].ends[at->parts[i]]) return 0;
    return 1;
}

/* "n=0+16 k=32+8": start and length along each dim of a tile, or of a part of the stage. */
const char *loop_text(const loop_at_t *at, uint32_t staged) {
    const char *text = "";
    for (uint32_t i = 0; i < step()->dim_count; i++) {
        const hal_sim_dim_t *dim = &step()->dims[i];
        const uint32_t first = staged ? first_piece(dim, at->parts[i]) : at->pieces[i];
        const uint32_t last = staged ? dim->ends[at->parts[i]] - 1 : at->pieces[i];
        const uint32_t start = dim->pieces[first].first;
        const uint32_t length = dim->pieces[last].first + dim->pieces[last].length - start;
        text = host_text("%s%s%s=%u+%u", text, i ? " " : "", dim->name, start, length);
    }
    return text;
}

/* ---- boxes ---- */

const hal_sim_span_t *loop_span(const hal_sim_axis_t *axis, const loop_at_t *at) {
    return &axis->pieces[axis->dim == HAL_SIM_NONE ? 0 : at->pieces[axis->dim]];
}

static const hal_sim_span_t *part_span(const hal_sim_axis_t *axis, const loop_at_t *at) {
    return &axis->parts[axis->dim == HAL_SIM_NONE ? 0 : at->parts[axis->dim]];
}

static void add_level(host_box_t *box, uint32_t count, uint32_t stride) {
    if (count == 1) return;
    host_level_t *inner = &box->levels[box->rank - 1];
    if (inner->count * inner->stride == stride) inner->count *= count;
    else box->levels[box->rank++] = (host_level_t){count, stride};
}

/* The box of the tile, or of the part where `staged`, inside its tensor, or inside the part's box where `within`. */
host_box_t loop_box(const hal_sim_operand_t *o, const loop_at_t *at, uint32_t staged, uint32_t within) {
    host_box_t box = {.bytes = o->element, .rank = 1, .levels = {{o->element, 1}}};
    uint32_t stride = o->element;
    for (uint32_t i = o->rank; i-- > 0;) {
        const hal_sim_axis_t *axis = &o->axes[i];
        const hal_sim_span_t *span = (staged ? part_span : loop_span)(axis, at);
        const hal_sim_span_t whole = within ? *part_span(axis, at) : (hal_sim_span_t){0, axis->extent};
        box.start += (span->first - whole.first) * stride;
        box.bytes *= span->length;
        add_level(&box, span->length, stride);
        stride *= whole.length;
    }
    return box;
}

/* What a transfer moves at its outer end, in the same form. */
host_box_t loop_moved_box(const host_side_t *side) {
    host_box_t box = {.start = side->place.offset, .bytes = side->run * side->count * side->planes, .rank = 1,
                      .levels = {{side->run, 1}}};
    add_level(&box, side->count, side->stride);
    add_level(&box, side->planes, side->plane_stride);
    return box;
}

uint32_t loop_same_box(const host_box_t *a, const host_box_t *b) {
    if (a->start != b->start || a->bytes != b->bytes || a->rank != b->rank) return 0;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->levels[i].count != b->levels[i].count || a->levels[i].stride != b->levels[i].stride) return 0;
    return 1;
}

const char *loop_box_text(uint32_t level, const host_box_t *box) {
    const char *text = host_text("%u B at %s + 0x%x", box->bytes, hal_sim.levels[level].name, box->start);
    for (uint32_t i = 0; i < box->rank && box->rank > 1; i++)
        text = i ? host_text("%s, %u times every %u B", text, box->levels[i].count, box->levels[i].stride)
                 : host_text("%s in runs of %u B", text, box->levels[i].count);
    return text;
}

/* ---- the map ---- */

static void check_operand_map(const hal_sim_step_t *s, const hal_sim_operand_t *o) {
    const uint32_t none = HAL_SIM_NONE, count = hal_sim.buffer_count;
    uint32_t good = o->home < count && o->moving_dims <= s->dim_count && o->stage_moving_dims <= s->dim_count && o->rank < DIMS;
    good = good && (o->slot == none || (o->slot < count && !hal_sim.buffers[o->slot].level));
    good = good && (o->stage == none || (o->stage < count && hal_sim.buffers[o->stage].level == 1 && o->slot != none));
    for (uint32_t i = 0; good && i < o->rank; i++) good = o->axes[i].dim == none || o->axes[i].dim < s->dim_count;
    if (!good) host_usage("simulation map: operand '%s' of '%s' is not within its step", o->arg, s->name);
}

void loop_check_map(void) {
    for (const hal_sim_step_t *s = hal_sim.steps; s < hal_sim.steps + hal_sim.step_count; s++) {
        if (s->dim_count > DIMS) host_usage("simulation map: '%s' has %u dims", s->name, s->dim_count);
        for (uint32_t i = 0; i < s->operand_count; i++) check_operand_map(s, &s->operands[i]);
    }
}
