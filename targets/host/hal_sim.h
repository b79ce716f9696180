/* What the simulator knows of the plan: printed by the generator into SimulationMap.c, read by the simulator alone. */
#ifndef HAL_SIM_H
#define HAL_SIM_H

#include <stdint.h>

#define HAL_SIM_ALWAYS 0xffffffffu
#define HAL_SIM_NONE 0xffffffffu

typedef enum { HAL_SIM_HOME, HAL_SIM_SLOT, HAL_SIM_TABLE } hal_sim_kind_t;

/* A buffer of a level. It is live in the steps first..last; `loaded` says that the harness fills it before step first.
 * A slot has one to three equal parts. Tables are those of a group of steps, which its first step fetches. `address` is the offset from the level's first byte, guard bytes included. */
typedef struct {
    const char *name;
    hal_sim_kind_t kind;
    uint32_t level, address, bytes, parts, first, last, loaded;
} hal_sim_buffer_t;

typedef struct {
    uint32_t first, length;
} hal_sim_span_t;

/* A dim of a step's loops. It is cut into `parts`, the stage's tiles (one where nothing is staged), and each of these
 * into pieces, the tiles: the pieces of part p are those before ends[p], from where part p - 1 ended. */
typedef struct {
    const char *name;
    uint32_t parts;
    const uint32_t *ends;
    const hal_sim_span_t *pieces;
    uint32_t reduction;
} hal_sim_dim_t;

/* An axis of a tensor: what each piece and each part of dim number `dim` touches of it, one span where that is
 * HAL_SIM_NONE. */
typedef struct {
    uint32_t dim, extent;
    const hal_sim_span_t *pieces, *parts;
} hal_sim_axis_t;

/* A pointer field of the kernel's argument struct, and how its tensor comes there. `home`, `slot` and `stage` are
 * buffers, the last two HAL_SIM_NONE where the tensor passes through none. `in` and `out` say that the slots' boxes come
 * in and go out; with `overwritten` they come in only in passes that do not overwrite the accumulators. A box is another one
 * when one of the first `moving_dims` dims of the tile loop goes on, or one of the first `stage_moving_dims` of the stage's.
 * `element` is the bytes of an element. */
typedef struct {
    const char *arg;
    uint32_t offset, writes, in, out, overwritten, home, slot, stage, moving_dims, stage_moving_dims, element, rank;
    const hal_sim_axis_t *axes;
} hal_sim_operand_t;

/* What a scalar field of the argument struct holds: the word `value`; a tile's length or start along dim `index`; 1 on
 * the first or last tile of all reductions, else 0; the lazy-reset flag; the box's length on `axis` of operand `index`,
 * or the product of those behind it; the entry of `table` for the piece of dim `index`; the word at `table`, a number of
 * the update; a null pointer. */
typedef enum {
    HAL_SIM_CONST,
    HAL_SIM_EXTENT,
    HAL_SIM_START,
    HAL_SIM_FIRST,
    HAL_SIM_LAST,
    HAL_SIM_FLAG,
    HAL_SIM_LENGTH,
    HAL_SIM_STRIDE,
    HAL_SIM_ENTRY,
    HAL_SIM_NUMBER,
    HAL_SIM_NULL
} hal_sim_scalar_kind_t;

typedef struct {
    const char *name;
    uint32_t offset;
    hal_sim_scalar_kind_t kind;
    uint32_t index, axis, value;
    const void *table;
} hal_sim_scalar_t;

/* `dims` stand in the order of the tile loop, outermost first; stage_order holds their numbers in that of the stage's.
 * tile_cycles holds the cost of each kernel call of the step, dispatch included, in order; `cycles` is the step's own
 * cost outside of kernels and transfers. `contention` is what each byte moved costs more, in thousandths, because kernels
 * run at the same time. */
typedef struct {
    const char *name;
    const hal_sim_dim_t *dims;
    const uint32_t *stage_order;
    uint32_t dim_count;
    const hal_sim_operand_t *operands;
    uint32_t operand_count;
    const hal_sim_scalar_t *scalars;
    uint32_t scalar_count;
    const uint32_t *tile_cycles;
    uint32_t tile_count, cycles, contention;
} hal_sim_step_t;

/* The steps first.. of a graph, `count` of them. It runs in every `every`-th pass, with HAL_SIM_AND_LAST in the last one as
 * well; the first graph in each. */
#define HAL_SIM_AND_LAST 0x80000000u
typedef struct {
    const char *name;
    uint32_t first, count, every;
} hal_sim_graph_t;

/* A transfer of operand number `operand` of a step that begins in one step and ends in another, through the outermost of
 * the operand's hops: the first ingress (`inward`) starts in the earlier step `at`, before its kernel calls; egresses are
 * awaited by the end of the later step `at`. A map without such transfers does not define them. */
typedef struct {
    uint32_t step, operand, inward, at;
} hal_sim_cross_step_t;

typedef struct {
    const hal_sim_cross_step_t *list;
    uint32_t count;
} hal_sim_cross_step_transfers_t;

extern const hal_sim_cross_step_transfers_t hal_sim_cross_step_transfers;

/* The cached copy of a residency interval: a whole tensor goes inwards from buffer `outer` to `inner`, or back. That starts in
 * the step `start`, before its kernel calls, and is awaited by the end of step `until`. A map without copies does not
 * define them. */
typedef struct {
    uint32_t inner, outer, inward, start, until;
} hal_sim_copy_t;

typedef struct {
    const hal_sim_copy_t *list;
    uint32_t count;
} hal_sim_copies_t;

extern const hal_sim_copies_t hal_sim_copies;

/* A transfer occupies its direction of the hop for setup + (bytes * byte_milli * (1000 + contention) / 1000 +
 * lines * line_milli + 999) / 1000 cycles. Where `shared` is set both directions are one engine. */
typedef struct {
    uint32_t setup, byte_milli, line_milli;
} hal_sim_dma_t;

typedef struct {
    hal_sim_dma_t in, out;
    uint32_t issue, wait, shared;
} hal_sim_hop_t;

typedef struct {
    const char *name;
    uint8_t *memory;
    uint32_t bytes; /* guard bytes included */
} hal_sim_level_t;

typedef struct {
    const hal_sim_level_t *levels;
    uint32_t level_count;
    const hal_sim_hop_t *hops;
    const hal_sim_buffer_t *buffers;
    uint32_t buffer_count;
    const hal_sim_step_t *steps;
    uint32_t step_count;
    const hal_sim_graph_t *graphs;
    uint32_t graph_count;
    uint32_t passes, accumulate; /* in all, and per update: the first of these overwrites the accumulators */
    uint32_t cores; /* unless --cores says otherwise */
} hal_sim_t;

extern const hal_sim_t hal_sim;

#endif
