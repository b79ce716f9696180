/* What the simulator knows of the plan: printed by the generator into SimulationMap.c, read by hal.c alone. */
#ifndef HAL_SIM_H
#define HAL_SIM_H

#include <stdint.h>

#define HAL_SIM_ALWAYS 0xffffffffu

typedef enum { HAL_SIM_HOME, HAL_SIM_SLOT, HAL_SIM_TABLE } hal_sim_kind_t;

/* A buffer of a level. It is live in the steps first..last; `loaded` says that the harness fills it before step first.
 * A slot has one to three equal parts. `address` is the offset from the level's first byte, guard bytes included. */
typedef struct {
    const char *name;
    hal_sim_kind_t kind;
    uint32_t level, address, bytes, parts, first, last, loaded;
} hal_sim_buffer_t;

/* A pointer field of the kernel's argument struct. */
typedef struct {
    const char *arg;
    uint32_t offset, reads, writes;
} hal_sim_operand_t;

/* A tensor that the step moves through hop `hop`: every element comes in at least once (`in` = 1) or equally often
 * (`in` = 2: no window, no halo), goes out exactly once (`out`). The buffer lies in the hop's outer level. */
typedef struct {
    uint32_t buffer, hop, offset, bytes, in, out;
} hal_sim_cover_t;

/* tile_cycles holds the cost of each kernel call of the step, dispatch included, in order; `cycles` is the step's own
 * cost outside of kernels and transfers. `contention` is what each byte moved costs more, in thousandths, because kernels
 * run at the same time. */
typedef struct {
    const char *name;
    const hal_sim_operand_t *operands;
    uint32_t operand_count;
    const hal_sim_cover_t *covers;
    uint32_t cover_count;
    const uint32_t *tile_cycles;
    uint32_t tile_count, cycles, contention;
} hal_sim_step_t;

/* The steps first.. of a graph, `count` of them. It runs in every `every`-th pass; the first graph in each. */
typedef struct {
    const char *name;
    uint32_t first, count, every;
} hal_sim_graph_t;

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
