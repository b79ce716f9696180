"""A small program under the host simulator, and the map of what it is to do."""

# What a generated program looks like, in small: three levels, three steps of four tiles each.
#   0  y = x + x   62 floats, tiles of 16, both slots double, 1D
#   1  z = y + w   2 rows x 31 columns, column tiles of 8, 2D, in place in one double slot; w resident in L1
#   2  v = u + u   64 floats from L3 through double slots of 32 in L2 and single slots of 16 in L1
MAP = """
#include "hal_sim.h"
#include "program.h"
_Alignas(16) uint8_t hal_memory_l1[1024], hal_memory_l2[2048], hal_memory_l3[1024];
static const hal_sim_level_t levels[] = {
    {"L1", hal_memory_l1, 1024}, {"L2", hal_memory_l2, 2048}, {"L3", hal_memory_l3, 1024}};
static const hal_sim_hop_t hops[] = {
    {{20, 125, 1500}, {30, 250, 1500}, 5, 3, 0}, {{200, 1000, 0}, {200, 1000, 0}, 7, 2, 1}};
static const hal_sim_buffer_t buffers[] = {
    {"x", HAL_SIM_HOME, 1, 16, 248, 1, 0, 0, 1},
    {"y", HAL_SIM_HOME, 1, 272, 248, 1, 0, 1, 0},
    {"z", HAL_SIM_HOME, 1, 528, 248, 1, 1, 2, 0},
    {"w", HAL_SIM_HOME, 0, 16, 64, 1, 0, HAL_SIM_ALWAYS, 1},
    {"u", HAL_SIM_HOME, 2, 16, 256, 1, 0, HAL_SIM_ALWAYS, 1},
    {"v", HAL_SIM_HOME, 2, 288, 256, 1, 2, 2, 0},
    {"x_l1", HAL_SIM_SLOT, 0, 96, 128, 2, 0, 0, 0},
    {"y_l1", HAL_SIM_SLOT, 0, 240, 128, 2, 0, 0, 0},
    {"yz_l1", HAL_SIM_SLOT, 0, 112, 128, 2, 1, 1, 0},
    {"u_l2", HAL_SIM_SLOT, 1, 16, 256, 2, 2, 2, 0},
    {"v_l2", HAL_SIM_SLOT, 1, 272, 256, 2, 2, 2, 0},
    {"u_l1", HAL_SIM_SLOT, 0, 96, 64, 1, 2, 2, 0},
    {"v_l1", HAL_SIM_SLOT, 0, 176, 64, 1, 2, 2, 0}};
#define NONE HAL_SIM_NONE
static const hal_sim_span_t tiles_0[] = {{0, 16}, {16, 16}, {32, 16}, {48, 14}}, whole_0[] = {{0, 62}};
static const hal_sim_span_t tiles_1[] = {{0, 8}, {8, 8}, {16, 8}, {24, 7}}, whole_1[] = {{0, 31}};
static const hal_sim_span_t tiles_2[] = {{0, 16}, {16, 16}, {32, 16}, {48, 16}}, parts_2[] = {{0, 32}, {32, 32}};
static const hal_sim_span_t one[] = {{0, 1}}, rows[] = {{0, 2}}, all_w[] = {{0, 16}};
static const hal_sim_span_t tiles_none[] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
static const uint32_t ends[] = {4}, part_ends[] = {2, 4}, order[] = {0};
static const hal_sim_dim_t dims_0[] = {{"i", 1, ends, tiles_0, 0}};
static const hal_sim_dim_t dims_1[] = {{"j", 1, ends, tiles_1, 0}};
static const hal_sim_dim_t dims_2[] = {{"k", 2, part_ends, tiles_2, 0}};
static const hal_sim_axis_t axes_0[] = {{0, 62, tiles_0, whole_0}}, axes_w[] = {{NONE, 16, all_w, all_w}};
static const hal_sim_axis_t axes_1[] = {{NONE, 1, one, one}, {NONE, 2, rows, rows}, {0, 31, tiles_1, whole_1}};
static const hal_sim_axis_t axes_2[] = {{0, 64, tiles_2, parts_2}};
static const hal_sim_axis_t axes_none[] __attribute__((unused)) = {{0, 64, tiles_none, parts_2}};
static const hal_sim_axis_t axes_all[] __attribute__((unused)) = {{NONE, 62, whole_0, whole_0}};
/* In step 0 and 2 both inputs are one tile, which comes in once. */
static const hal_sim_operand_t operands_0[] = {
    {"a", offsetof(add_args_t, a), 0, 1, 0, 0, 0, 6, NONE, 1, 0, 4, 1, axes_0},
    {"b", offsetof(add_args_t, b), 0, 0, 0, 0, 0, 6, NONE, 1, 0, 4, 1, axes_0},
    {"y", offsetof(add_args_t, y), 1, 0, 1, 0, 1, 7, NONE, 1, 0, 4, 1, axes_0}};
static const hal_sim_operand_t operands_1[] = {
    {"a", offsetof(add_args_t, a), 0, 1, 0, 0, 1, 8, NONE, 1, 0, 4, 3, axes_1},
    {"b", offsetof(add_args_t, b), 0, 0, 0, 0, 3, NONE, NONE, 0, 0, 4, 1, axes_w},
    {"y", offsetof(add_args_t, y), 1, 0, 1, 0, 2, 8, NONE, 1, 0, 4, 3, axes_1}};
static const hal_sim_operand_t operands_2[] = {
    {"a", offsetof(add_args_t, a), 0, 1, 0, 0, 4, 11, 9, 1, 1, 4, 1, axes_2},
    {"b", offsetof(add_args_t, b), 0, 0, 0, 0, 4, 11, 9, 1, 1, 4, 1, axes_2},
    {"y", offsetof(add_args_t, y), 1, 0, 1, 0, 5, 12, 10, 1, 1, 4, 1, axes_2}};
static const hal_sim_scalar_t scalars_0[] = {{"n", offsetof(add_args_t, n), HAL_SIM_EXTENT, 0, 0, 0, NULL}};
static const hal_sim_scalar_t scalars_1[] __attribute__((unused)) = {
    {"n", offsetof(add_args_t, n), HAL_SIM_STRIDE, 0, 0, 0, NULL}};
static const hal_sim_scalar_t scalars_null[] __attribute__((unused)) = {
    {"b", offsetof(add_args_t, b), HAL_SIM_NULL, 0, 0, 0, NULL}};
static const uint32_t cycles[] = {90, 90, 90, 80, 90, 90};
static const hal_sim_step_t steps[] = {
    {"double", dims_0, order, 1, operands_0, 3, scalars_0, 1, cycles, 4, 11, 0},
    {"add_w", dims_1, order, 1, operands_1, 3, scalars_1, 1, cycles, 4, 12, 0},
    {"staged", dims_2, order, 1, operands_2, 3, scalars_0, 1, cycles, 4, 13, 0}};
static const hal_sim_graph_t graphs[] = {{"pass", 0, 3, 1}};
const hal_sim_t hal_sim = {levels, 3, hops, buffers, 13, steps, 3, graphs, 1, 2, 1, 8};
"""

HEADER = """
#include <stddef.h>
#include <stdint.h>
typedef struct {
    const float *a, *b;
    float *y;
    uint32_t n;
} add_args_t;
extern uint8_t hal_memory_l1[], hal_memory_l2[], hal_memory_l3[];
#define X (hal_memory_l2 + 16)
#define Y (hal_memory_l2 + 272)
#define Z (hal_memory_l2 + 528)
#define W (hal_memory_l1 + 16)
#define U (hal_memory_l3 + 16)
#define V (hal_memory_l3 + 288)
#define X_L1(p) (hal_memory_l1 + 96 + 64 * (p))
#define Y_L1(p) (hal_memory_l1 + 240 + 64 * (p))
#define YZ_L1(p) (hal_memory_l1 + 112 + 64 * (p))
#define U_L2(p) (hal_memory_l2 + 16 + 128 * (p))
#define V_L2(p) (hal_memory_l2 + 272 + 128 * (p))
#define U_L1 (hal_memory_l1 + 96)
#define V_L1 (hal_memory_l1 + 176)
"""

PROGRAM = r"""
#include "format.h"
#include "hal.h"
#include "program.h"

static void add(const void *args) {
    const add_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) p->y[i] = p->a[i] + p->b[i];
}

static void call(void *a, void *b, void *y, uint32_t n) {
    const add_args_t args = {a, b, y, n};
    hal_parallel(add, &args);
}

static uint32_t size(uint32_t tile) { return tile < 3 ? 64 : 56; }
static uint32_t width(uint32_t tile) { return tile < 3 ? 32 : 28; }

static void step_0(void) {
    hal_ticket_t in[2], out[2] = {HAL_DONE, HAL_DONE};
    hal_step(0);
    in[0] = hal_dma_in_1d(0, X_L1(0), X, size(0));
    for (uint32_t t = 0; t < 4; t++) {
        const uint32_t p = t & 1;
        if (t < 3) in[1 - p] = hal_dma_in_1d(0, X_L1(1 - p), X + (t + 1) * 64, size(t + 1));
        hal_dma_wait(in[p]);
        hal_dma_wait(out[p]);
        call(X_L1(p), X_L1(p), Y_L1(p), size(t) / 4);
        out[p] = hal_dma_out_1d(0, Y + t * 64, Y_L1(p), size(t));
    }
    hal_dma_wait(out[0]);
    hal_dma_wait(out[1]);
}

static void step_1(void) {
    hal_ticket_t in[2], out[2] = {HAL_DONE, HAL_DONE};
    hal_step(1);
    in[0] = hal_dma_in_2d(0, YZ_L1(0), Y, width(0), 2, 124);
    for (uint32_t t = 0; t < 4; t++) {
        const uint32_t p = t & 1, next = t + 1;
        hal_dma_wait(out[1 - p]);
        if (t < 3) in[1 - p] = hal_dma_in_2d(0, YZ_L1(1 - p), Y + next * 32, width(next), 2, 124);
        hal_dma_wait(in[p]);
        call(YZ_L1(p), W, YZ_L1(p), width(t) / 2);
        out[p] = hal_dma_out_2d(0, Z + t * 32, YZ_L1(p), width(t), 2, 124);
    }
    hal_dma_wait(out[1]);
}

static void step_2(void) {
    hal_ticket_t in[2], out[2];
    hal_step(2);
    in[0] = hal_dma_in_1d(1, U_L2(0), U, 128);
    for (uint32_t o = 0; o < 2; o++) {
        if (o < 1) in[1] = hal_dma_in_1d(1, U_L2(1), U + 128, 128);
        hal_dma_wait(in[o]);
        for (uint32_t t = 0; t < 2; t++) {
            hal_dma_wait(hal_dma_in_1d(0, U_L1, U_L2(o) + t * 64, 64));
            call(U_L1, U_L1, V_L1, 16);
            hal_dma_wait(hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64));
        }
        out[o] = hal_dma_out_1d(1, V + o * 128, V_L2(o), 128);
    }
    hal_dma_wait(out[0]);
    hal_dma_wait(out[1]);
}

static void print_cycles(const char *name) {
    char text[FORMAT_U64_CHARS];
    format_u64(text, hal_cycles());
    hal_print(name);
    hal_print(text);
    hal_print("\n");
}

static void one_pass(void) {
    step_0();
    print_cycles("step 0 ");
    step_1();
    step_2();
    hal_step(HAL_NO_STEP);
}

int main(int argc, char **argv) {
    hal_init(argc, argv);
    hal_read(W, 64);
    hal_read(U, 256);
    for (uint32_t pass = 0; pass < 2; pass++) {
        hal_read(X, 248);
        one_pass();
        hal_write(Z, 248);
        hal_write(V, 256);
    }
    print_cycles("end ");
    hal_exit(0);
}
"""
