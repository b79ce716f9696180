"""A small program under the host simulator, and faults to plant in it, each with what the simulator must say."""

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
    {"a", offsetof(add_args_t, a), 0, 1, 0, 0, 0, 6, NONE, 1, 0, 1, axes_0},
    {"b", offsetof(add_args_t, b), 0, 0, 0, 0, 0, 6, NONE, 1, 0, 1, axes_0},
    {"y", offsetof(add_args_t, y), 1, 0, 1, 0, 1, 7, NONE, 1, 0, 1, axes_0}};
static const hal_sim_operand_t operands_1[] = {
    {"a", offsetof(add_args_t, a), 0, 1, 0, 0, 1, 8, NONE, 1, 0, 3, axes_1},
    {"b", offsetof(add_args_t, b), 0, 0, 0, 0, 3, NONE, NONE, 0, 0, 1, axes_w},
    {"y", offsetof(add_args_t, y), 1, 0, 1, 0, 2, 8, NONE, 1, 0, 3, axes_1}};
static const hal_sim_operand_t operands_2[] = {
    {"a", offsetof(add_args_t, a), 0, 1, 0, 0, 4, 11, 9, 1, 1, 1, axes_2},
    {"b", offsetof(add_args_t, b), 0, 0, 0, 0, 4, 11, 9, 1, 1, 1, axes_2},
    {"y", offsetof(add_args_t, y), 1, 0, 1, 0, 5, 12, 10, 1, 1, 1, axes_2}};
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

# id: check, words of its message, edits "place: old => new": the place is a function of PROGRAM, the map or the
# header, and the old text stands exactly once in it.
FAULTS = {
    "no_wait_for_ingress": (
        "forgotten-wait",
        "operand 'a' of kernel call 0 is 'x_l1' part 0",
        "step_0: hal_dma_wait(in[p]); => (void)in[p];",
    ),
    "no_wait_at_end": ("forgotten-wait", "the step ends", "step_0: hal_dma_wait(out[1]); => "),
    "egress_read_early": (
        "forgotten-wait",
        "begins to read L2",
        "step_2: hal_dma_wait(hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64)); => "
        "in[0] = hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64); if (t == 0) hal_dma_wait(in[0]);",
    ),
    "refill_in_flight": (
        "forgotten-wait",
        "begins to write L1",
        "step_0: hal_step(0); => hal_step(0); hal_dma_in_1d(0, X_L1(0), X, 64);",
    ),
    "hidden_write_to_ingress": (
        "forgotten-wait",
        "was written before the wait",
        "step_0: hal_dma_wait(in[p]); => X_L1(p)[5] ^= 1; hal_dma_wait(in[p]);",
    ),
    "kernel_reads_other_part": (
        "forgotten-wait",
        "operand 'a' of kernel call 0 is 'x_l1' part 1",
        "step_0: call(X_L1(p), X_L1(p), => call(X_L1(1 - p), X_L1(1 - p),",
    ),
    "staged_other_part": (
        "forgotten-wait",
        "begins to read L2",
        "step_2: U_L2(o) + t * 64, 64 => U_L2(1 - o) + t * 64, 64",
    ),
    "no_wait_for_egress": (
        "write-while-read",
        "kernel call 2 writes operand 'y'",
        "step_0: hal_dma_wait(out[p]); => ",
    ),
    "in_place_refill": ("write-while-read", "begins to write L1", "step_1: hal_dma_wait(out[1 - p]); => "),
    "hidden_write_to_egress": (
        "write-while-read",
        "changed between start and wait",
        "step_0: Y_L1(p), size(t)); => Y_L1(p), size(t)); Y_L1(p)[9] ^= 1;",
    ),
    "egress_of_other_part": (
        "trace",
        "is to move 64 B at L2 + 0x110 and L1 + 0xf0, found 64 B at L2 + 0x110 and L1 + 0x130",
        "step_0: Y + t * 64, Y_L1(p) => Y + t * 64, Y_L1(1 - p)",
    ),
    "kernel_writes_other_part": (
        "argument",
        "operand 'y' of kernel call 0, of tile i=0+16, is to be 'y_l1' part 0 + 0",
        "step_0: X_L1(p), Y_L1(p), => X_L1(p), Y_L1(1 - p),",
    ),
    "staged_egress_short": (
        "trace",
        "transfer 1 of operand 'y' out through hop 0, of tile k=16+16, is to move 64 B",
        "step_2: t * 64, V_L1, 64) => t * 64, V_L1, 64 - 4 * t)",
    ),
    "source_past_end": (
        "outside-buffer",
        "ends 4 B past the end of 'x'",
        "step_0: size(t + 1)); => size(t + 1) + 4 * (t == 2));",
    ),
    "source_before": ("outside-buffer", "begins 4 B before 'x'", "step_0: X_L1(0), X, => X_L1(0), X - 4,"),
    "box_too_wide": (
        "outside-buffer",
        "ends 4 B past the end of 'y'",
        "step_1: width(next), 2, 124 => width(next) + 4 * (t == 2), 2, 124",
    ),
    "slot_overrun": (
        "outside-buffer",
        "ends 4 B past the end of part 0 of 'x_l1'",
        "step_0: X_L1(0), X, size(0) => X_L1(0), X, size(0) + 4",
    ),
    "stride_too_long": (
        "outside-buffer",
        "ends 8 B past the end of 'y'",
        "step_1: width(0), 2, 124 => width(0), 2, 224",
    ),
    "dead_buffer": (
        "outside-buffer",
        "'x', live in steps 0 to 0 only",
        "step_1: YZ_L1(0), Y, => YZ_L1(0), X,",
    ),
    "operand_astray": (
        "outside-buffer",
        "begins 4 B past the end of 'w'",
        "step_1: YZ_L1(p), W, => YZ_L1(p), W + 68,",
    ),
    "wrong_level": ("outside-buffer", "not in L1", "step_0: X_L1(0), X, => Y, X,"),
    "no_level": ("outside-buffer", "lies in no level", "step_0: X_L1(0), X, => in, X,"),
    "harness_reads_slot": ("outside-buffer", "hal_read", "main: hal_read(X, 248) => hal_read(X_L1(0), 248)"),
    "double_wait": (
        "double-wait",
        "was waited for already",
        "step_0: hal_dma_wait(out[1]); => hal_dma_wait(out[0]);",
    ),
    "ticket_of_other_step": (
        "double-wait",
        "earlier step",
        "step_1: hal_step(1); => hal_step(1); hal_dma_wait(1);",
    ),
    "unknown_ticket": (
        "unknown-ticket",
        "ticket 1000",
        "step_1: hal_step(1); => hal_step(1); hal_dma_wait(1000);",
    ),
    "guard_after": ("guard", "0 B past the end of 'w'", "step_1: hal_step(1); => hal_step(1); W[64] = 0;"),
    "guard_before": ("guard", "1 B before 'w'", "step_1: hal_step(1); => hal_step(1); *(W - 1) = 0;"),
    "guard_at_step_end": (
        "guard",
        "step 1 'add_w': guard: kernel call 3 or what followed it wrote where it must not, 0x9e instead of 0xde: "
        "L2 + 0x11 lies in 'x', live in steps 0 to 0 only",
        "step_1: hal_dma_wait(out[1]); => hal_dma_wait(out[1]); X[1] ^= 64;",
    ),
    "live_home_of_no_operand": (
        "guard",
        "step 0 'double': guard: kernel call 3 or what followed it wrote where it must not",
        "step_0: hal_dma_wait(out[1]); => hal_dma_wait(out[1]); U[8] ^= 1;",
    ),
    "kernel_past_its_box": (
        "guard",
        "kernel call 3 wrote where it must not, 0x00 instead of 0x70: 'y_l1' part 1 + 58 (L1 + 0x16a), 2 B past "
        "the end of the box of operand 'y' in tile i=48+14",
        "add: p->y[i] = p->a[i] + p->b[i]; => p->y[i] = p->a[i] + p->b[i];\n    if (p->n == 14) p->y[14] = 0;",
    ),
    "guard_between_graphs": (
        "guard",
        "0 B past the end of 'v'",
        'main: print_cycles("end "); => V[256] = 1;',
    ),
    "source_shifted": (
        "trace",
        "transfer 1 of operand 'a' in through hop 0, of tile i=16+16, is to move 64 B at L2 + 0x50",
        "step_0: X + (t + 1) * 64, => X + (t + 1) * 64 + 4 * (t == 0),",
    ),
    "source_short": (
        "trace",
        "found 60 B at L2 + 0x50",
        "step_0: size(t + 1)); => size(t + 1) - 4 * (t == 0));",
    ),
    "egress_shifted": (
        "trace",
        "found 64 B at L2 + 0x154",
        "step_0: Y + t * 64, => Y + t * 64 + 4 * (t == 1),",
    ),
    "egress_twice": (
        "trace",
        "transfer 3 of operand 'y' out through hop 0, of tile j=24+7",
        "step_1: Z + t * 32, => Z + (t - (t == 3)) * 32,",
    ),
    "row_missing": (
        "trace",
        "64 B at L2 + 0x110 in runs of 32 B, 2 times every 124 B and L1 + 0x70, found 32 B at",
        "step_1: width(0), 2, 124 => width(0), 1, 124",
    ),
    "ingress_again": (
        "trace",
        "operand 'a' has no more than 2 transfers in through hop 1 in this step",
        "step_2: hal_dma_wait(out[0]); => hal_dma_wait(out[0]); hal_dma_wait(hal_dma_in_1d(1, U_L2(0), U, 128));",
    ),
    "ingress_into_output": (
        "trace",
        "the plan moves nothing in through hop 0 there in this step",
        "step_0: hal_step(0); => hal_step(0); hal_dma_wait(hal_dma_in_1d(0, Y_L1(0), X, 64));",
    ),
    "ingress_into_home": (
        "trace",
        "the plan moves nothing in through hop 0 there in this step",
        "step_0: hal_step(0); => hal_step(0); hal_dma_wait(hal_dma_in_1d(0, W, X, 64));",
    ),
    "wrong_stride": (
        "trace",
        "2 times every 124 B and L1 + 0x70, found 64 B at L2 + 0x110 in runs of 32 B, 2 times every 128 B",
        "step_1: width(0), 2, 124 => width(0), 2, 128",
    ),
    "tiles_swapped": (
        "trace",
        "transfer 1 of operand 'a' in through hop 0, of tile i=16+16",
        "step_0: X + (t + 1) * 64, size(t + 1) => X + (t < 2 ? 2 - t : t + 1) * 64, size(t + 1)",
    ),
    "scalar": (
        "argument",
        "'n' of kernel call 3, of tile i=48+14, is to be 14 (0xe), found 13 (0xd)",
        "step_0: size(t) / 4); => size(t) / 4 - (t == 3));",
    ),
    "scalar_of_box": (
        "argument",
        "'n' of kernel call 0, of tile j=0+8, is to be 16 (0x10), found 15 (0xf)",
        "step_1: width(t) / 2 => width(t) / 2 - 1",
    ),
    "pointer_inside": (
        "argument",
        "operand 'b' of kernel call 0, of tile j=0+8, is to be 'w' + 0 (L1 + 0x10), found 'w' + 4 (L1 + 0x14)",
        "step_1: YZ_L1(p), W, => YZ_L1(p), W + 4,",
    ),
    "pointer_null": (
        "argument",
        "of tile j=0+8, is to be 'w' + 0 (L1 + 0x10), found address (nil) lies in no level",
        "step_1: YZ_L1(p), W, => YZ_L1(p), NULL,",
    ),
    "pointer_not_null": (
        "argument",
        "operand 'b' of kernel call 0 is to be NULL, found 'w' + 0",
        "map: operands_1, 3, scalars_1, 1 => operands_1, 1, scalars_null, 1",
    ),
    "tile_too_many": (
        "tile-count",
        "kernel call 4 of a step of 3",
        "map: scalars_0, 1, cycles, 4, 11 => scalars_0, 1, cycles, 3, 11",
    ),
    "tile_missing": (
        "tile-count",
        "4 kernel calls in a step of 5",
        "map: scalars_0, 1, cycles, 4, 11 => scalars_0, 1, cycles, 5, 11",
    ),
    "step_out_of_range": (
        "order",
        "hal_step(3, of 3 in all) where step 1 'add_w' of graph 'pass' in pass 0 of 2 is due",
        "step_1: hal_step(1) => hal_step(3)",
    ),
    "step_backwards": (
        "order",
        "hal_step(0 'double') where step 1 'add_w'",
        "one_pass: step_0(); => step_0(); step_0();",
    ),
    "first_step_left_out": (
        "order",
        "hal_step(1 'add_w') where step 0 'double'",
        "one_pass: step_0(); => (void)step_0;",
    ),
    "step_left_out": ("order", "hal_step(2 'staged') where step 1 'add_w'", "one_pass: step_1(); => (void)step_1;"),
    "last_step_left_out": (
        "order",
        "hal_step(HAL_NO_STEP) where step 2 'staged'",
        "one_pass: step_2(); => (void)step_2;",
    ),
    "steps_swapped": (
        "order",
        "hal_step(1 'add_w') where step 0 'double'",
        "one_pass: step_0(); => step_1(); step_0();",
        "one_pass: step_1();\n    step_2(); => step_2();",
    ),
    "graph_not_ended": (
        "order",
        "hal_step(0 'double') where HAL_NO_STEP, the end of graph 'pass'",
        "one_pass: hal_step(HAL_NO_STEP); => ",
    ),
    "pass_left_out": (
        "order",
        "the program ends where step 0 'double' of graph 'pass' in pass 1 of 2 is due",
        "main: pass < 2; => pass < 1;",
    ),
    "pass_too_many": (
        "order",
        "hal_step(0 'double') where the end, after 2 passes, is due",
        'main: print_cycles("end "); => one_pass();',
    ),
    "transfer_between_graphs": (
        "order",
        "a transfer through hop 0 outside of any step",
        "step_0: hal_step(0); => ",
    ),
    "kernel_between_graphs": (
        "order",
        "a kernel runs outside of any step",
        "main: hal_read(W, 64); => call(W, W, W, 16);",
    ),
    "ends_inside_step": (
        "order",
        "the program ends where HAL_NO_STEP, the end of graph 'pass' in pass 0 of 2, is due",
        "one_pass: hal_step(HAL_NO_STEP); => hal_exit(0);",
    ),
    "last_tile_other_part": (
        "argument",
        "operand 'a' of kernel call 3, of tile i=48+14, is to be 'x_l1' part 1 + 0",
        "step_0: call(X_L1(p), X_L1(p), => call(X_L1(t == 3 ? 0 : p), X_L1(t == 3 ? 0 : p),",
    ),
    "reads_empty_part": (
        "argument",
        "operand 'b' of kernel call 0, of tile k=0+16, is to be 'u_l1' + 0",
        "step_2: call(U_L1, U_L1, => call(U_L1, V_L1,",
    ),
    "ingress_to_other_part": (
        "trace",
        "is to move 64 B at L2 + 0x50 and L1 + 0xa0, found 64 B at L2 + 0x50 and L1 + 0x60",
        "step_0: if (t < 3) in[1 - p] = hal_dma_in_1d(0, X_L1(1 - p), => "
        "hal_dma_wait(in[p]); in[p] = HAL_DONE; if (t < 3) in[1 - p] = hal_dma_in_1d(0, X_L1(p),",
    ),
    "written_not_sent": (
        "trace",
        "the step ends without transfer 3 of operand 'y' out through hop 0, of tile i=48+14",
        "step_0: out[p] = hal_dma_out_1d => out[p] = HAL_DONE; if (t < 3) out[p] = hal_dma_out_1d",
    ),
    "empty_over_unread": (
        "trace",
        "found 0 B and L1 + 0x60",
        "step_0: hal_dma_in_1d(0, X_L1(0), X, size(0)); => hal_dma_in_1d(0, X_L1(0), X, size(0)); "
        "hal_dma_wait(in[0]); in[0] = hal_dma_in_1d(0, X_L1(0), X, 0);",
    ),
    "empty_in_flight": (
        "forgotten-wait",
        "an empty transfer takes the place of ticket 1",
        "step_0: hal_dma_in_1d(0, X_L1(0), X, size(0)); => hal_dma_in_1d(0, X_L1(0), X, size(0)); "
        "hal_dma_in_2d(0, X_L1(0), X, 4, 0, 8);",
    ),
    "empty_elsewhere": (
        "outside-buffer",
        "an empty transfer through hop 0 has no slot",
        "step_1: hal_step(1); => hal_step(1); hal_dma_in_3d(0, W, Y, 4, 2, 8, 0, 32);",
    ),
    "staged_source_shifted": (
        "trace",
        "is to move 64 B at L2 + 0x10 and L1 + 0x60, found 64 B at L2 + 0x14",
        "step_2: U_L2(o) + t * 64, 64 => U_L2(o) + t * 64 + 4 * (t == 0), 64",
    ),
    "staged_from_other_slot": (
        "trace",
        "is to move 64 B at L2 + 0x10 and L1 + 0x60, found 64 B at L2 + 0x110",
        "step_2: U_L2(o) + t * 64, 64 => V_L2(o) + t * 64, 64",
    ),
    "call_before_ingress": (
        "swapped-slot",
        "kernel call 0 reads box 1 of operand 'a' from part 0 of 'u_l1', which nobody filled in this step",
        "step_2: hal_dma_wait(hal_dma_in_1d(0, U_L1, U_L2(o) + t * 64, 64)); => ",
    ),
    "call_on_tile_before": (
        "swapped-slot",
        "kernel call 1 reads box 2 of operand 'a' from part 0 of 'u_l1', which holds box 1",
        "step_2: hal_dma_wait(hal_dma_in_1d(0, U_L1, => if (t == 0) hal_dma_wait(hal_dma_in_1d(0, U_L1,",
    ),
    "ingress_over_needed": (
        "swapped-slot",
        "overwrites box 1 in part 0 of 'u_l1', which is still needed",
        "step_2: call(U_L1, U_L1, => hal_dma_wait(hal_dma_in_1d(0, U_L1, U_L2(o) + 64, 64)); call(U_L1, U_L1,",
    ),
    "call_over_unsent": (
        "swapped-slot",
        "kernel call 1 overwrites box 1 in part 0 of 'v_l1', which was never sent out",
        "step_2: hal_dma_wait(hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64)); => ",
    ),
    "egress_before_call": (
        "stale-egress",
        "sends box 1 from part 0 of 'y_l1', which holds box 0",
        "step_0: hal_dma_wait(out[p]); => hal_dma_wait(out[p]); hal_dma_out_1d(0, Y + t * 64, Y_L1(p), size(t));",
    ),
    "egress_of_half_a_box": (
        "stale-egress",
        "sends box 1 from part 0 of 'y_l1', which is not finished",
        "map: NONE, 1, 0, 1, axes_0}}; => NONE, 0, 0, 1, axes_all}};",
        "step_0: size(t)); => t == 0 ? 248 : size(t));",
        'map: {"y_l1", HAL_SIM_SLOT, 0, 240, 128, 2 => {"y_l1", HAL_SIM_SLOT, 0, 240, 248, 1',
        "step_0: X_L1(p), Y_L1(p), => X_L1(p), Y_L1(0),",
    ),
    "stage_read_before_filled": (
        "swapped-slot",
        "reads box 1 from part 0 of 'u_l2', which nobody filled in this step",
        "step_2: hal_step(2); => hal_step(2); hal_dma_wait(hal_dma_in_1d(0, U_L1, U_L2(0), 64));",
    ),
    "stage_ingress_over_needed": (
        "swapped-slot",
        "overwrites box 1 in part 0 of 'u_l2', which is still needed",
        "header: 16 + 128 * (p)) => 16 + 0 * (p))",
        'map: {"u_l2", HAL_SIM_SLOT, 1, 16, 256, 2, => {"u_l2", HAL_SIM_SLOT, 1, 16, 128, 1,',
        "step_2: if (o < 1) in[1] = => if (o < 1) hal_dma_wait(in[0]), in[0] = HAL_DONE, in[1] =",
    ),
    "stage_over_unsent": (
        "swapped-slot",
        "overwrites box 1 in part 0 of 'v_l2', which was never sent out",
        "header: 272 + 128 * (p)) => 272 + 0 * (p))",
        'map: {"v_l2", HAL_SIM_SLOT, 1, 272, 256, 2, => {"v_l2", HAL_SIM_SLOT, 1, 272, 128, 1,',
        "step_2: out[o] = => out[o] = HAL_DONE; if (o > 0) out[o] =",
    ),
    "stage_egress_early": (
        "stale-egress",
        "sends box 1 from part 0 of 'v_l2', which holds box 0",
        "step_2: hal_dma_wait(in[o]); => hal_dma_wait(in[o]); hal_dma_out_1d(1, V + o * 128, V_L2(o), 128);",
    ),
    "stage_egress_of_half": (
        "stale-egress",
        "sends box 1 from part 0 of 'v_l2', which is not finished",
        "step_2: hal_dma_wait(hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64)); => "
        "hal_dma_wait(hal_dma_out_1d(0, V_L2(o) + t * 64, V_L1, 64)); hal_dma_out_1d(1, V, V_L2(0), 128);",
    ),
    "accumulator_without_ingress": (
        "swapped-slot",
        "kernel call 0 reads box 1 of operand 'y' from part 0 of 'y_l1', which nobody filled in this step",
        "map: offsetof(add_args_t, y), 1, 0, 1, 0, 1, 7 => offsetof(add_args_t, y), 1, 1, 1, 1, 1, 7",
        "map: graphs, 1, 2, 1, 8 => graphs, 1, 2, 2, 8",
    ),
}
