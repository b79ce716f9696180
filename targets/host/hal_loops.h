/* The loops of a step, that which runs or one whose transfers begin before it, over the tables of the map. */
#ifndef HAL_LOOPS_H
#define HAL_LOOPS_H

#include "hal_host.h"

#define DIMS 16 /* of a step, and axes of an operand, at most */

/* Where the loops are: the stage's part and the piece of every dim. */
typedef struct {
    uint32_t parts[DIMS], pieces[DIMS];
} loop_at_t;

static inline const hal_sim_step_t *step(void) { return &hal_sim.steps[host.owner]; }

void loop_check_map(void); /* that operands are within their steps */
void loop_begin_part(loop_at_t *at);
/* Go on along the first `moving_dims` dims of the tile loop, or of the stage's; 0 at the end, where they begin again. */
uint32_t loop_next_tile(loop_at_t *at, uint32_t moving_dims);
uint32_t loop_next_part(loop_at_t *at, uint32_t moving_dims);
/* Boxes of the operand before this tile's in the part, and the number of the part's own in the stage, from 1. */
uint32_t loop_boxes_before(const hal_sim_operand_t *o, const loop_at_t *at);
uint32_t loop_stage_box(const hal_sim_operand_t *o, const loop_at_t *at);
/* Whether the tile is the first, or the last, on its box. */
uint32_t loop_begins_box(const hal_sim_operand_t *o, const loop_at_t *at);
uint32_t loop_ends_box(const hal_sim_operand_t *o, const loop_at_t *at);
/* For messages: a tile, or a part of the stage. */
const char *loop_text(const loop_at_t *at, uint32_t staged);
const hal_sim_span_t *loop_span(const hal_sim_axis_t *axis, const loop_at_t *at);
/* The box of the tile, or of the part where `staged`, inside its tensor, or inside the part's box where `within`. */
host_box_t loop_box(const hal_sim_operand_t *o, const loop_at_t *at, uint32_t staged, uint32_t within);
/* What a transfer moves at its outer end. */
host_box_t loop_moved_box(const host_side_t *side);
uint32_t loop_same_box(const host_box_t *a, const host_box_t *b);
const char *loop_box_text(uint32_t level, const host_box_t *box);

#endif
