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
static const hal_sim_operand_t operands[] = {
    {"a", offsetof(add_args_t, a), 1, 0}, {"b", offsetof(add_args_t, b), 1, 0},
    {"y", offsetof(add_args_t, y), 0, 1}};
static const hal_sim_cover_t covers_0[] = {{0, 0, 0, 248, 2, 0}, {1, 0, 0, 248, 0, 1}};
static const hal_sim_cover_t covers_1[] = {{1, 0, 0, 248, 2, 0}, {2, 0, 0, 248, 0, 1}};
static const hal_sim_cover_t covers_2[] = {{4, 1, 0, 256, 2, 0}, {5, 1, 0, 256, 0, 1}};
static const uint32_t cycles[] = {90, 90, 90, 80, 90, 90};
static const hal_sim_step_t steps[] = {
    {"double", operands, 3, covers_0, 2, cycles, 4, 11, 0},
    {"add_w", operands, 3, covers_1, 2, cycles, 4, 12, 0},
    {"staged", operands, 3, covers_2, 2, cycles, 4, 13, 0}};
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

# id: check, words of its message, edits "place: old => new": the place is a function of PROGRAM or the map,
# and the old text stands exactly once in it.
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
        "stale-egress",
        "'y_l1' part 1",
        "step_0: Y + t * 64, Y_L1(p) => Y + t * 64, Y_L1(1 - p)",
    ),
    "kernel_writes_other_part": (
        "stale-egress",
        "'y_l1' part 0",
        "step_0: X_L1(p), Y_L1(p), => X_L1(p), Y_L1(1 - p),",
    ),
    "staged_egress_short": (
        "stale-egress",
        "'v_l2' part 0",
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
    "guard_between_graphs": (
        "guard",
        "0 B past the end of 'v'",
        'main: print_cycles("end "); => V[256] = 1;',
    ),
    "source_shifted": (
        "coverage",
        "element 16 (byte 64 of 248) of 'x' came in through hop 0 0 times",
        "step_0: X + (t + 1) * 64, => X + (t + 1) * 64 + 4 * (t == 0),",
    ),
    "source_short": (
        "coverage",
        "element 31 (byte 124 of 248) of 'x' came in through hop 0 0 times",
        "step_0: size(t + 1)); => size(t + 1) - 4 * (t == 0));",
    ),
    "egress_shifted": (
        "coverage",
        "element 16 (byte 64 of 248) of 'y' went out through hop 0 0 times",
        "step_0: Y + t * 64, => Y + t * 64 + 4 * (t == 1),",
    ),
    "egress_twice": (
        "coverage",
        "of 'z' went out through hop 0 2 times, not exactly once",
        "step_1: Z + t * 32, => Z + (t - (t == 3)) * 32,",
    ),
    "row_missing": (
        "coverage",
        "element 31 (byte 124 of 248) of 'y' came in through hop 0 0 times",
        "step_1: width(0), 2, 124 => width(0), 1, 124",
    ),
    "source_uneven": (
        "coverage",
        "element 32 (byte 128 of 256) of 'u' came in through hop 1 1 times, not 2",
        "step_2: hal_dma_wait(out[0]); => hal_dma_wait(out[0]);"
        " hal_dma_wait(hal_dma_in_1d(1, U_L2(0), U, 128));"
        " hal_dma_wait(hal_dma_in_1d(0, U_L1, U_L2(0), 64)); call(U_L1, U_L1, 0, 0);"
        " hal_dma_wait(hal_dma_in_1d(0, U_L1, U_L2(0) + 64, 64)); call(U_L1, U_L1, 0, 0);",
        "map: covers_2, 2, cycles, 4 => covers_2, 2, cycles, 6",
    ),
    "outside_of_tensor": (
        "coverage",
        "leaves the tensor",
        "map: {0, 0, 0, 248, 2, 0} => {0, 0, 0, 240, 2, 0}",
    ),
    "tile_too_many": (
        "tile-count",
        "kernel call 4 of a step of 3",
        "map: covers_0, 2, cycles, 4 => covers_0, 2, cycles, 3",
    ),
    "tile_missing": (
        "tile-count",
        "4 kernel calls in a step of 5",
        "map: covers_0, 2, cycles, 4 => covers_0, 2, cycles, 5",
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
    "first_step_left_out": ("order", "hal_step(1 'add_w') where step 0 'double'", "one_pass: step_0(); => (void)step_0;"),
    "step_left_out": ("order", "hal_step(2 'staged') where step 1 'add_w'", "one_pass: step_1(); => (void)step_1;"),
    "last_step_left_out": ("order", "hal_step(HAL_NO_STEP) where step 2 'staged'", "one_pass: step_2(); => (void)step_2;"),
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
        "swapped-slot",
        "byte 0 of part 1 of 'x_l1' came in and was never read",
        "step_0: call(X_L1(p), X_L1(p), => call(X_L1(t == 3 ? 0 : p), X_L1(t == 3 ? 0 : p),",
    ),
    "reads_empty_part": (
        "swapped-slot",
        "kernel call 0 reads operand 'b', 'v_l1'",
        "step_2: call(U_L1, U_L1, => call(U_L1, V_L1,",
    ),
    "ingress_to_other_part": (
        "swapped-slot",
        "overwrites byte 0 of a tile that nobody has read yet",
        "step_0: if (t < 3) in[1 - p] = hal_dma_in_1d(0, X_L1(1 - p), => "
        "hal_dma_wait(in[p]); in[p] = HAL_DONE; if (t < 3) in[1 - p] = hal_dma_in_1d(0, X_L1(p),",
    ),
    "written_not_sent": (
        "swapped-slot",
        "part 1 of 'y_l1' was written and never sent out",
        "step_0: out[p] = hal_dma_out_1d => out[p] = HAL_DONE; if (t < 3) out[p] = hal_dma_out_1d",
    ),
    "empty_over_unread": (
        "swapped-slot",
        "an empty transfer overwrites byte 0 of a tile that nobody has read yet: 'x_l1' part 0",
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
        "swapped-slot",
        "byte 0 of part 0 of 'u_l2' came in and was never read",
        "step_2: U_L2(o) + t * 64, 64 => U_L2(o) + t * 64 + 4 * (t == 0), 64",
    ),
    "staged_not_filled": (
        "swapped-slot",
        "nobody filled",
        "step_2: U_L2(o) + t * 64, 64 => V_L2(o) + t * 64, 64",
    ),
}
