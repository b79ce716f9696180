/* One core, one flat memory: a transfer is a copy, made when it starts, when it is waited for, or at a time in between,
 * as the command line says. */
#include "hal.h"
#include "platform.h"
#include "profile.h"
#include "semihost.h"

#define UART ((volatile uint8_t *)0x10000000)
#define TEST_DEVICE ((volatile uint32_t *)0x100000)
#define QUEUE 64u
/* The core's timer: one tick is 100 instructions under -icount shift=0. */
#define TIME (*(volatile uint64_t *)0x0200bff8)
#define TIME_COMPARE (*(volatile uint64_t *)0x02004000)
#ifndef WATCHDOG_LIMIT
#define WATCHDOG_LIMIT 40000000u /* ticks a step may take */
#endif

typedef struct {
    uint8_t *to;
    const uint8_t *from;
    uint32_t run, count, planes;
    uint32_t to_stride, from_stride, to_plane, from_plane;
    uint32_t busy, outward;
} transfer_t;

typedef enum { ORDER_EARLY, ORDER_LATE, ORDER_RANDOM } order_t;

static transfer_t queue[QUEUE];
static order_t order = ORDER_LATE;
static uint32_t random_state = 1;
static uint32_t current_step = HAL_NO_STEP;

/* ---- platform ---- */

void platform_putc(char character) {
    UART[0] = (uint8_t)character;
}

void platform_exit(int code) {
    *TEST_DEVICE = code ? ((uint32_t)code << 16 | 0x3333u) : 0x5555u;
    for (;;) __asm__ volatile("wfi");
}

uint32_t platform_step(void) {
    return current_step;
}

void hal_step(uint32_t step) {
    current_step = step;
    TIME_COMPARE = TIME + WATCHDOG_LIMIT;
    if (HAL_PROFILE) profile_step(step);
}

static profile_entry_t entries[HAL_PROFILE ? 1024 : 1];
profile_entry_t *const profile_buffer = entries;
const uint32_t profile_capacity = sizeof(entries) / sizeof(entries[0]);

uint32_t profile_clock(void) {
    return (uint32_t)hal_cycles();
}

int platform_mapped(const void *address) {
    (void)address;
    return 1;
}

void platform_close(intptr_t file) {
    const intptr_t block[] = {file};
    semihost(SEMIHOST_CLOSE, block);
}

/* The value after a flag in the semihosting command line; 0 where the flag is absent. */
static const char *flag_value(const char *line, const char *flag) {
    for (; *line; line++) {
        const char *a = line, *b = flag;
        while (*b && *a == *b) a++, b++;
        if (!*b && *a == ' ') return a + 1;
    }
    return 0;
}

void platform_init(int argc, char **argv) {
    (void)argc;
    (void)argv;
    TIME_COMPARE = TIME + WATCHDOG_LIMIT;
    __asm__ volatile("csrs mie, %0\ncsrsi mstatus, 8" : : "r"(1u << 7)); /* timer interrupts, at machine level */
    static char line[256];
    intptr_t block[] = {(intptr_t)line, (intptr_t)sizeof(line)};
    if (semihost(SEMIHOST_CMDLINE, block)) return;
    const char *wanted = flag_value(line, "--dma-order"), *seed = flag_value(line, "--seed");
    if (wanted) order = *wanted == 'e' ? ORDER_EARLY : *wanted == 'r' ? ORDER_RANDOM : ORDER_LATE;
    for (random_state = 0; seed && *seed >= '0' && *seed <= '9'; seed++)
        random_state = random_state * 10 + (uint32_t)(*seed - '0');
    random_state = random_state * 2654435761u + 1u;
}

uint64_t hal_cycles(void) {
    uint32_t high, low, again;
    do {
        __asm__ volatile("csrr %0, instreth\ncsrr %1, instret\ncsrr %2, instreth" : "=r"(high), "=r"(low), "=r"(again));
    } while (high != again);
    return (uint64_t)high << 32 | low;
}

/* ---- compute ---- */

uint32_t hal_core_id(void) {
    return 0;
}

uint32_t hal_core_count(void) {
    return 1;
}

/* ---- transfers ---- */

static void copy(uint8_t *to, const uint8_t *from, uint32_t bytes) {
    if (((uintptr_t)to | (uintptr_t)from | bytes) % 4 == 0) {
        for (uint32_t i = 0; i < bytes; i += 4) *(uint32_t *)(to + i) = *(const uint32_t *)(from + i);
        return;
    }
    for (uint32_t i = 0; i < bytes; i++) to[i] = from[i];
}

static void epilogue(transfer_t *t) {
    for (uint32_t plane = 0; plane < t->planes; plane++)
        for (uint32_t line = 0; line < t->count; line++)
            copy(t->to + plane * t->to_plane + line * t->to_stride, t->from + plane * t->from_plane + line * t->from_stride, t->run);
    t->busy = 0;
}

static uint32_t random_bit(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state & 1u;
}

/* Under the random order every call may end any transfer that has not ended. */
static void chance(void) {
    if (order != ORDER_RANDOM) return;
    for (uint32_t i = 0; i < QUEUE; i++)
        if (queue[i].busy == 1 && random_bit()) {
            epilogue(&queue[i]);
            queue[i].busy = 2;
        }
}

void hal_parallel(hal_kernel_t kernel, const void *args) {
    chance();
    const uint32_t begin = HAL_PROFILE > 1 ? profile_clock() : 0;
    kernel(args);
    if (HAL_PROFILE > 1) profile_record(PROFILE_KERNEL, profile_clock() - begin);
}

static hal_ticket_t start(transfer_t transfer) {
    if (transfer.run * transfer.count * transfer.planes == 0) return HAL_DONE;
    chance();
    for (uint32_t i = 0; i < QUEUE; i++)
        if (!queue[i].busy) {
            queue[i] = transfer;
            queue[i].busy = 1;
            if (order == ORDER_EARLY) {
                epilogue(&queue[i]);
                queue[i].busy = 2;
            }
            return i + 1;
        }
    epilogue(&transfer); /* without room for its number it ends before its start returns */
    return HAL_DONE;
}

void hal_dma_wait(hal_ticket_t ticket) {
    if (ticket == HAL_DONE) return;
    chance();
    const uint32_t begin = HAL_PROFILE > 1 ? profile_clock() : 0;
    transfer_t *t = &queue[ticket - 1];
    if (t->busy == 1) epilogue(t);
    t->busy = 0;
    if (HAL_PROFILE > 1) profile_record(t->outward ? PROFILE_EGRESS : PROFILE_INGRESS, profile_clock() - begin);
}

hal_ticket_t hal_dma_in_3d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t count, uint32_t stride,
                           uint32_t planes, uint32_t plane_stride) {
    (void)hop;
    return start((transfer_t){inner, outer, run, count, planes, run, stride, run * count, plane_stride, 0, 0});
}

hal_ticket_t hal_dma_in_2d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t count, uint32_t stride) {
    return hal_dma_in_3d(hop, inner, outer, run, count, stride, 1, 0);
}

hal_ticket_t hal_dma_in_1d(uint32_t hop, void *inner, const void *outer, uint32_t bytes) {
    return hal_dma_in_3d(hop, inner, outer, bytes, 1, 0, 1, 0);
}

hal_ticket_t hal_dma_out_3d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t count, uint32_t stride,
                            uint32_t planes, uint32_t plane_stride) {
    (void)hop;
    return start((transfer_t){outer, inner, run, count, planes, stride, run, plane_stride, run * count, 0, 1});
}

hal_ticket_t hal_dma_out_2d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t count, uint32_t stride) {
    return hal_dma_out_3d(hop, outer, inner, run, count, stride, 1, 0);
}

hal_ticket_t hal_dma_out_1d(uint32_t hop, void *outer, const void *inner, uint32_t bytes) {
    return hal_dma_out_3d(hop, outer, inner, bytes, 1, 0, 1, 0);
}
