/* Does a HAL what hal.h says? Each check prints its name before it begins, and what is wrong; the program never ends
 * early because of a fault. Transfers are judged by what lies in the inner memory, as outer ones may be out of reach. */
#include "conformance.h"
#include "exact_f32.h"
#include "format.h"
#include "hal.h"

enum { AREA = 1024, SPARE = 4096, TICKS = 64, STACK = 1024, LONGEST = 64 };

static const char *current = "begin";

static void print_number(uint32_t value) {
    char text[24];
    text[format_u64(text, value)] = 0;
    hal_print(text);
}

static void fault(const char *text, uint32_t found, uint32_t expected) {
    hal_print("fault ");
    hal_print(current);
    hal_print(": ");
    hal_print(text);
    hal_print(", found ");
    print_number(found);
    hal_print(", expected ");
    print_number(expected);
    hal_print("\n");
}

static void equal(const char *text, uint32_t found, uint32_t expected) {
    if (found != expected) fault(text, found, expected);
}

static void begin(const char *name) {
    current = name;
    hal_print("check ");
    hal_print(name);
    hal_print("\n");
}

/* ---- memory ---- */

static HAL_TABLE uint32_t table[4] = {1, 20, 300, 4000};
static uint32_t data_word = 77, zero_word;

static void check_memory(void) {
    begin("memory");
    equal("a variable's first value is lost", data_word, 77);
    equal("a variable without value is not zero", zero_word, 0);
    for (uint32_t i = 0; i < memory_count; i++) equal("a memory's begin is not aligned", (uint32_t)((uintptr_t)memories[i].base % alignment), 0);
    equal("HAL_TABLE is not aligned", (uint32_t)((uintptr_t)table % sizeof(uint32_t)), 0);
    equal("a table in HAL_TABLE lost its content", table[0] + table[1] + table[2] + table[3], 4321);
    uint8_t *inner = memories[0].base + SPARE;
    for (uint32_t i = 0; i < AREA; i++) inner[i] = (uint8_t)(i * 7u);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < AREA; i++) wrong += inner[i] != (uint8_t)(i * 7u);
    equal("bytes of the innermost memory do not keep what is written", wrong, 0);
}

/* ---- transfers ---- */

static void fill(uint8_t *at, uint32_t bytes, uint32_t seed) {
    for (uint32_t i = 0; i < bytes; i++) at[i] = (uint8_t)((i * 13u + seed * 29u) ^ (i >> 5));
}

static uint8_t byte_of(uint32_t place, uint32_t seed) { return (uint8_t)((place * 13u + seed * 29u) ^ (place >> 5)); }

static void compare(const char *text, const uint8_t *at, uint32_t bytes, uint32_t seed) {
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < bytes; i++) wrong += at[i] != byte_of(i, seed);
    equal(text, wrong, 0);
}

/* Words outwards and back; what lies behind them stays. */
static void check_lines(uint32_t hop, uint8_t *inner, uint8_t *outer) {
    const uint32_t lengths[] = {4, 64, 12, 28, 256, 1020, AREA};
    begin("transfer of a line");
    equal("a transfer inwards of no bytes has a ticket", hal_dma_in_1d(hop, inner, outer, 0), HAL_DONE);
    equal("a transfer outwards of no bytes has a ticket", hal_dma_out_1d(hop, outer, inner, 0), HAL_DONE);
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        fill(inner, AREA, i);
        hal_dma_wait(hal_dma_out_1d(hop, outer, inner, lengths[i]));
        fill(inner, AREA, 99);
        hal_dma_wait(hal_dma_in_1d(hop, inner, outer, lengths[i]));
        compare("bytes differ after out and in", inner, lengths[i], i);
        uint32_t wrong = 0;
        for (uint32_t k = lengths[i]; k < AREA; k++) wrong += inner[k] != byte_of(k, 99);
        equal("bytes behind the line are written", wrong, 0);
    }
}

enum { RUN = 12, COUNT = 5, STRIDE = 20, PLANES = 3, PLANE = 128 };

static uint32_t place_of(uint32_t packed) {
    const uint32_t in_plane = packed % (RUN * COUNT);
    return packed / (RUN * COUNT) * PLANE + in_plane / RUN * STRIDE + in_plane % RUN;
}

/* Boxes inwards are compared with the lines that they are made of; outwards, with what a line brings back. */
static void check_boxes(uint32_t hop, uint8_t *inner, uint8_t *outer) {
    begin("transfer of a box");
    for (uint32_t planes = 1; planes <= PLANES; planes += PLANES - 1) {
        const uint32_t packed = RUN * COUNT * planes;
        uint32_t wrong = 0;
        fill(inner, AREA, 3);
        hal_dma_wait(hal_dma_out_1d(hop, outer, inner, AREA));
        fill(inner, AREA, 98);
        hal_dma_wait(planes == 1 ? hal_dma_in_2d(hop, inner, outer, RUN, COUNT, STRIDE)
                                 : hal_dma_in_3d(hop, inner, outer, RUN, COUNT, STRIDE, planes, PLANE));
        for (uint32_t i = 0; i < packed; i++) wrong += inner[i] != byte_of(place_of(i), 3);
        for (uint32_t i = packed; i < AREA; i++) wrong += inner[i] != byte_of(i, 98);
        if (wrong) fault(planes == 1 ? "inwards in two dims, bytes are wrong" : "inwards in three dims, bytes are wrong", wrong, 0);
        fill(inner, AREA, 4);
        hal_dma_wait(planes == 1 ? hal_dma_out_2d(hop, outer, inner, RUN, COUNT, STRIDE)
                                 : hal_dma_out_3d(hop, outer, inner, RUN, COUNT, STRIDE, planes, PLANE));
        hal_dma_wait(hal_dma_in_1d(hop, inner, outer, AREA));
        wrong = 0;
        for (uint32_t i = 0; i < packed; i++) {
            wrong += inner[place_of(i)] != byte_of(i, 4);
            inner[place_of(i)] = byte_of(place_of(i), 3);
        }
        for (uint32_t i = 0; i < AREA; i++) wrong += inner[i] != byte_of(i, 3);
        if (wrong) fault(planes == 1 ? "outwards in two dims, bytes are wrong" : "outwards in three dims, bytes are wrong", wrong, 0);
    }
    equal("a box without lines has a ticket", hal_dma_in_2d(hop, inner, outer, RUN, 0, STRIDE), HAL_DONE);
    equal("a box without planes has a ticket", hal_dma_out_3d(hop, outer, inner, RUN, COUNT, STRIDE, 0, PLANE), HAL_DONE);
}

/* Several transfers under way, waited for in another order; what is waited for is there, and its source is free. */
static void check_order(uint32_t hop, uint8_t *inner, uint8_t *outer) {
    enum { PARTS = 4, PART = AREA / PARTS };
    const uint32_t order[] = {2, 0, 3, 1};
    hal_ticket_t tickets[PARTS];
    begin("order of transfers");
    fill(inner, AREA, 5);
    for (uint32_t i = 0; i < PARTS; i++) tickets[i] = hal_dma_out_1d(hop, outer + i * PART, inner + i * PART, PART);
    for (uint32_t i = 0; i < PARTS; i++) {
        hal_dma_wait(tickets[order[i]]);
        for (uint32_t k = 0; k < PART; k++) inner[order[i] * PART + k] = 0;
    }
    for (uint32_t i = 0; i < PARTS; i++) tickets[i] = hal_dma_in_1d(hop, inner + i * PART, outer + i * PART, PART);
    for (uint32_t i = 0; i < PARTS; i++) {
        uint32_t wrong = 0;
        hal_dma_wait(tickets[order[i]]);
        for (uint32_t k = 0; k < PART; k++) wrong += inner[order[i] * PART + k] != byte_of(order[i] * PART + k, 5);
        equal("after its wait a part is not there", wrong, 0);
    }
}

/* ---- cores ---- */

typedef struct {
    volatile uint32_t *calls, *late;
} core_probe_t;

static void probe_core(const void *args) {
    const core_probe_t *v = args;
    const uint32_t core = hal_core_id();
    if (core >= LONGEST) return;
    for (volatile uint32_t i = 0; i < 500u * (core + 1u); i++) continue; /* the last core is the latest */
    v->late[core] = core + 1u;
    v->calls[core] = v->calls[core] + 1u;
}

static volatile uint32_t calls[LONGEST], late[LONGEST];
static HAL_TABLE core_probe_t probe = {0, 0};

static void check_cores(void) {
    begin("cores");
    const uint32_t cores = hal_core_count();
    equal("hal_core_count is not the plan's number", cores, hal_plan_cores);
    probe.calls = calls;
    probe.late = late;
    for (uint32_t round = 1; round <= 3; round++) {
        for (uint32_t i = 0; i < LONGEST; i++) late[i] = 0;
        hal_parallel(probe_core, &probe);
        for (uint32_t i = 0; i < LONGEST; i++) {
            const uint32_t expected = i < hal_plan_cores;
            equal("hal_parallel returned before a core was done", late[i], expected * (i + 1u));
            equal("a core did not run the kernel once", calls[i], expected * round);
        }
    }
}

/* ---- clock ---- */

static void check_clock(void) {
    begin("clock");
    uint64_t last = hal_cycles(), first = last;
    uint32_t back = 0;
    for (uint32_t i = 0; i < TICKS; i++) {
        for (volatile uint32_t k = 0; k < 2000; k++) continue;
        const uint64_t now = hal_cycles();
        back += now < last;
        last = now;
    }
    equal("hal_cycles went back", back, 0);
    equal("hal_cycles stands still", last > first, 1);
}

/* ---- arithmetic ---- */

static float float_of(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static void check_fmaf(void) {
    exact_fault_t found;
    begin("fmaf");
    if (exact_lacking()) fault("the processor lacks instructions that the program is built for", 1, 0);
    if (exact_fault(&found)) fault("fmaf is not rounded once; bits of the result", found.found, found.exact);
}

static void check_subnormals(void) {
    begin("subnormals");
    const volatile float small = float_of(0x00800000u), half = 0.5f, least = float_of(1u), two = 2.0f;
    equal("a product is flushed to zero", exact_bits(small * half), 0x00400000u);
    equal("an operand is taken for zero", exact_bits(least * two), 2u);
    equal("a difference is flushed to zero", exact_bits(small - float_of(0x007fffffu)), 1u);
}

static void check_nan(void) {
    begin("NaN");
    const volatile float zero = 0.0f, one = 1.0f, infinite = float_of(0x7f800000u);
    const volatile float nan = infinite * zero;
    const volatile uint32_t exponent = exact_bits(nan) & 0x7fffffffu;
    equal("infinity times zero is a number", exponent > 0x7f800000u, 1);
    equal("NaN equals itself", nan == nan, 0);
    equal("NaN compares as less", nan < one, 0);
    equal("NaN is lost in a sum", (exact_bits(nan + one) & 0x7fffffffu) > 0x7f800000u, 1);
    equal("one by infinity is not zero", exact_bits(one / infinite), 0);
}

static void check_rounding(void) {
    begin("rounding");
    const volatile float one = 1.0f, three = 3.0f, tie = float_of(0x33800000u); /* 2^-24 */
    const volatile float odd = float_of(0x3f800001u);
    equal("a tie is not rounded to even", exact_bits(one + tie), 0x3f800000u);
    equal("a tie of an odd number is not rounded to even", exact_bits(odd + tie), 0x3f800002u);
    equal("a quotient is not rounded to the nearest", exact_bits(one / three), 0x3eaaaaabu);
    equal("a number is not cut when it becomes an integer", (uint32_t)(int32_t)(-three / 2.0f) + 1u, 0);
}

/* ---- stack ---- */

/* How much of the stack below the caller a call has written, of STACK bytes; paints it first where there is no call. */
__attribute__((noinline)) static uint32_t depth(uint32_t paint) {
    volatile uint8_t *top = (volatile uint8_t *)__builtin_frame_address(0) - 2 * STACK / 16;
    volatile uint8_t *end = top - STACK;
    uint32_t left = 0;
    if (paint)
        for (volatile uint8_t *at = end; at < top; at++) *at = 0xa5;
    else
        while (left < STACK && end[left] == 0xa5) left++;
    return STACK - left;
}

static void nothing(const void *args) { (void)args; }

static void check_stack(void) {
    begin("stack");
    const char *texts[] = {"hal_step takes the whole stack", "hal_cycles takes the whole stack", "hal_parallel takes the whole stack"};
    for (uint32_t i = 0; i < 3; i++) {
        depth(1);
        if (i == 0) hal_step(0);
        if (i == 1) (void)hal_cycles();
        if (i == 2) hal_parallel(nothing, 0);
        const uint32_t used = depth(0);
        if (used > STACK - STACK / 8) fault(texts[i], used, STACK - STACK / 8);
    }
    hal_step(HAL_NO_STEP);
}

/* ---- files ---- */

/* The input is AREA bytes of a known pattern, in two reads; the output is the same, in two writes. */
static void check_files(void) {
    begin("files");
    uint8_t *inner = memories[0].base + SPARE;
    hal_read(inner, AREA / 2 + 1);
    hal_read(inner + AREA / 2 + 1, AREA / 2 - 1);
    compare("hal_read brings other bytes", inner, AREA, 1);
    fill(inner, AREA, 1);
    hal_write(inner, AREA / 2 - 1);
    hal_write(inner + AREA / 2 - 1, AREA / 2 + 1);
}

int main(int argc, char **argv) {
    hal_init(argc, argv);
    check_memory();
    for (uint32_t hop = 0; hop + 1 < memory_count; hop++) {
        uint8_t *inner = memories[hop].base + SPARE, *outer = memories[hop + 1].base + SPARE;
        check_lines(hop, inner, outer);
        check_boxes(hop, inner, outer);
        check_order(hop, inner, outer);
    }
    check_cores();
    check_clock();
    check_fmaf();
    check_subnormals();
    check_nan();
    check_rounding();
    check_stack();
    check_files();
    hal_print("conformance ended\n");
    hal_exit(0);
    return 0;
}
