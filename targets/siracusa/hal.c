/* Siracusa's cluster: dispatch by the event unit's barrier, MCHAN between L2 and L1, HyperRAM behind the uDMA. */
#include "hal.h"
#include "hints.h"
#include "hyperram.h"
#include "platform.h"
#include "profile.h"
#include "semihost.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define FETCH_ENABLE REGISTER(0x10200008)
#define BARRIER_TRIGGER_MASK REGISTER(0x10204200)
#define BARRIER_TARGET_MASK REGISTER(0x1020420c)
#define EVENT_UNIT 0x10204000
#define BARRIER_WAIT "0x21c" /* offset from EVENT_UNIT */
#define INTERRUPT_MASK REGISTER(0x1020400c)
#define TIMER_CONFIG REGISTER(0x10200400)
#define TIMER_COMPARE REGISTER(0x10200410)
#define TIMER_RESET REGISTER(0x10200420)
#define TIMER_EVENT (1u << 10)
#ifndef WATCHDOG_LIMIT
#define WATCHDOG_LIMIT 400000000u /* cycles a step may take */
#endif
#define MCHAN_COMMAND REGISTER(0x10204400)
#define MCHAN_STATUS REGISTER(0x10204404)
#define SOC_EXIT REGISTER(0x1a1040a0)
#define CONSOLE(core) REGISTER(0x1a10f000 + ((core) << 3))

#define CORES 8u

/* ---- platform ---- */

void platform_putc(char character) {
    CONSOLE(0) = (uint32_t)character;
}

void platform_exit(int code) {
    SOC_EXIT = 0x80000000u | (uint32_t)code;
    for (;;) __asm__ volatile("wfi");
}

uint32_t platform_step(void) {
    return CLUSTER_JOB->step;
}

/* The buffer lies behind the cluster's own words in L1. */
profile_entry_t *const profile_buffer = (profile_entry_t *)(CLUSTER_JOB + 1);
const uint32_t profile_capacity = (0x400 - sizeof(cluster_job_t)) / sizeof(profile_entry_t);

uint32_t profile_clock(void) {
    uint32_t now;
    __asm__ volatile("csrr %0, 0xb00" : "=r"(now));
    return now;
}

/* L3 has addresses from 0 on, and nothing that is mapped lies below the cluster. */
int platform_mapped(const void *address) {
    return (uint32_t)address >= 0x10000000;
}

void platform_close(intptr_t file) {
    semihost(SEMIHOST_CLOSE, (const void *)file); /* the simulator wants the number itself */
}

/* Every core takes the watchdog's interrupt: one that sleeps in a barrier cannot, the one it waits for can. */
static void watch(void) {
    INTERRUPT_MASK = TIMER_EVENT;
    __asm__ volatile("csrsi mstatus, 8");
}

/* Counts cycles from here on; the barrier is ready before the other cores are started. */
void platform_init(int argc, char **argv) {
    (void)argc;
    (void)argv;
    __asm__ volatile("csrwi 0xb00, 0\n"
                     "csrwi 0xcc0, 1\n"
                     "csrwi 0xcc1, 1");
    CLUSTER_JOB->cores = hal_plan_cores;
    hal_step(HAL_NO_STEP); /* what moves before the first step belongs to none */
    TIMER_COMPARE = WATCHDOG_LIMIT;
    TIMER_CONFIG = 1 | 1 << 1 | 1 << 2; /* on, from zero, with interrupt */
    watch();
    hyperram_init();
    BARRIER_TRIGGER_MASK = (1u << CORES) - 1u;
    BARRIER_TARGET_MASK = (1u << CORES) - 1u;
    FETCH_ENABLE = (1u << CORES) - 1u;
}

/* The counter has 32 bits: called at least once per 2^32 cycles, this one has 64. */
uint64_t hal_cycles(void) {
    static uint32_t last, wraps;
    uint32_t now;
    __asm__ volatile("csrr %0, 0xb00" : "=r"(now));
    if (now < last) wraps++;
    last = now;
    return (uint64_t)wraps << 32 | now;
}

/* ---- compute ---- */

/* Sleeps until all cores have come here. */
static inline void barrier(void) {
    uint32_t ignored;
    __asm__ volatile(".insn i 0x03, 6, %0, " BARRIER_WAIT "(%1)" : "=r"(ignored) : "r"(EVENT_UNIT) : "memory");
}

/* Beside hal_parallel, as both are fetched again in most steps. */
void hal_step(uint32_t step) {
    CLUSTER_JOB->step = step;
    TIMER_RESET = 1;
    if (HAL_PROFILE) profile_step(step);
}

void hal_parallel(hal_kernel_t kernel, const void *args) {
    const uint32_t begin = HAL_PROFILE > 1 ? profile_clock() : 0;
    CLUSTER_JOB->kernel = kernel;
    CLUSTER_JOB->args = args;
    barrier();
    kernel(args);
    barrier();
    if (HAL_PROFILE > 1) profile_record(PROFILE_KERNEL, profile_clock() - begin);
}

_Noreturn void cluster_worker(void);
void cluster_worker(void) {
    const uint32_t id = hal_core_id();
    watch();
    while (id >= CLUSTER_JOB->cores) barrier(); /* without work, but barriers wait for all cores */
    for (;;) {
        barrier();
        CLUSTER_JOB->kernel(CLUSTER_JOB->args);
        barrier();
    }
}

/* ---- L2 <-> L1: MCHAN ---- */

/* The engine's length field has 17 bits, and a full one silently moves nothing. */
#define MCHAN_LIMIT 131068u
enum { MCHAN_OUT = 0, MCHAN_IN = 1 << 17, MCHAN_INCREMENT = 1 << 18, MCHAN_2D = 1 << 19 };

static inline void mchan_line(uint32_t direction, uint32_t inner, uint32_t outer, uint32_t bytes) {
    MCHAN_COMMAND = bytes | MCHAN_INCREMENT | direction;
    MCHAN_COMMAND = inner;
    MCHAN_COMMAND = outer;
}

static inline void mchan_lines(uint32_t direction, uint32_t inner, uint32_t outer, uint32_t run, uint32_t bytes,
                               uint32_t stride) {
    MCHAN_COMMAND = bytes | MCHAN_INCREMENT | MCHAN_2D | direction;
    MCHAN_COMMAND = inner;
    MCHAN_COMMAND = outer;
    MCHAN_COMMAND = run;
    MCHAN_COMMAND = stride;
}

/* Lines that are no longer than what one command can move, as many at once as it can, or parts of longer ones. */
static __attribute__((noinline)) void mchan_split(uint32_t direction, uint32_t inner, uint32_t outer, uint32_t run,
                                                  uint32_t count, uint32_t stride) {
    if (run > MCHAN_LIMIT) {
        for (; count > 0; count--, inner += run, outer += stride) {
            uint32_t at = 0;
            for (; run - at > MCHAN_LIMIT; at += MCHAN_LIMIT) mchan_line(direction, inner + at, outer + at, MCHAN_LIMIT);
            mchan_line(direction, inner + at, outer + at, run - at);
        }
        return;
    }
    const uint32_t lines = MCHAN_LIMIT / run;
    for (; count > lines; count -= lines, inner += run * lines, outer += stride * lines)
        mchan_lines(direction, inner, outer, run, run * lines, stride);
    mchan_lines(direction, inner, outer, run, run * count, stride);
}

static inline void mchan_2d(uint32_t direction, uint32_t inner, uint32_t outer, uint32_t run, uint32_t count,
                            uint32_t stride) {
    if (run * count > MCHAN_LIMIT)
        mchan_split(direction, inner, outer, run, count, stride);
    else
        mchan_lines(direction, inner, outer, run, run * count, stride);
}

/* MCHAN's tickets hold the id in their last five bits. */
#define TICKET_MCHAN 0x100u
#define TICKET_MCHAN_OUT 0x200u
#define MCHAN_LAST 15u

/* Reading the command register takes the lowest free id, under which the commands that follow are counted. */
static inline uint32_t mchan_open(void) { return MCHAN_COMMAND; }

static __attribute__((noinline)) hal_ticket_t mchan_end_last(void) {
    while (MCHAN_STATUS & 1u << MCHAN_LAST) {}
    MCHAN_STATUS = 1u << MCHAN_LAST;
    return HAL_DONE;
}

/* Without a free id the next read would never return: a transfer that took the last one ends before its start returns. */
static inline hal_ticket_t mchan_started(uint32_t direction, uint32_t id) {
    if (SELDOM(id == MCHAN_LAST)) return mchan_end_last();
    return id | TICKET_MCHAN | (direction & MCHAN_IN ? 0 : TICKET_MCHAN_OUT);
}

/* A transfer of more than one command; the others are small functions that call none. */
static __attribute__((noinline)) hal_ticket_t mchan_many(uint32_t direction, uint32_t inner, uint32_t outer, uint32_t run,
                                                         uint32_t count, uint32_t stride) {
    const uint32_t id = mchan_open();
    mchan_split(direction, inner, outer, run, count, stride);
    return mchan_started(direction, id);
}

/* In a start, what seldom happens stands behind what does: kernels drive its code out of the cache, and each line that is
 * fetched again takes twenty cycles. */
static inline hal_ticket_t mchan_start_1d(uint32_t direction, uint32_t inner, uint32_t outer, uint32_t bytes) {
    if (SELDOM(bytes == 0)) return HAL_DONE;
    if (SELDOM(bytes > MCHAN_LIMIT)) return mchan_many(direction, inner, outer, bytes, 1, 0);
    const uint32_t id = mchan_open();
    mchan_line(direction, inner, outer, bytes);
    return mchan_started(direction, id);
}

static inline hal_ticket_t mchan_start_2d(uint32_t direction, uint32_t inner, uint32_t outer, uint32_t run, uint32_t count,
                                          uint32_t stride) {
    if (SELDOM(run * count == 0)) return HAL_DONE;
    if (SELDOM(run * count > MCHAN_LIMIT)) return mchan_many(direction, inner, outer, run, count, stride);
    const uint32_t id = mchan_open();
    mchan_lines(direction, inner, outer, run, run * count, stride);
    return mchan_started(direction, id);
}

static inline hal_ticket_t mchan_start_3d(uint32_t direction, uint32_t inner, uint32_t outer, uint32_t run, uint32_t count,
                                          uint32_t stride, uint32_t planes, uint32_t plane_stride) {
    if (SELDOM(run * count * planes == 0)) return HAL_DONE;
    const uint32_t id = mchan_open();
    for (uint32_t p = 0; p < planes; p++)
        mchan_2d(direction, inner + p * run * count, outer + p * plane_stride, run, count, stride);
    return mchan_started(direction, id);
}

void hal_dma_wait(hal_ticket_t ticket) {
    if (ticket == HAL_DONE) return;
    const uint32_t begin = HAL_PROFILE > 1 ? profile_clock() : 0;
    if (SELDOM(ticket & TICKET_HYPERRAM)) {
        hyperram_wait(ticket);
    } else {
        const uint32_t bit = 1u << (ticket & 31u);
        while (MCHAN_STATUS & bit) {}
        MCHAN_STATUS = bit;
    }
    const uint32_t out = ticket & TICKET_HYPERRAM ? TICKET_OUT : TICKET_MCHAN_OUT;
    if (HAL_PROFILE > 1) profile_record(ticket & out ? PROFILE_EGRESS : PROFILE_INGRESS, profile_clock() - begin);
}

hal_ticket_t hal_dma_in_1d(uint32_t hop, void *inner, const void *outer, uint32_t bytes) {
    if (SELDOM(hop)) return hyperram_start(HYPERRAM_IN, inner, outer, bytes, 1, 0, 1, 0);
    return mchan_start_1d(MCHAN_IN, (uint32_t)inner, (uint32_t)outer, bytes);
}

hal_ticket_t hal_dma_out_1d(uint32_t hop, void *outer, const void *inner, uint32_t bytes) {
    if (SELDOM(hop)) return hyperram_start(HYPERRAM_OUT, inner, outer, bytes, 1, 0, 1, 0);
    return mchan_start_1d(MCHAN_OUT, (uint32_t)inner, (uint32_t)outer, bytes);
}

hal_ticket_t hal_dma_in_2d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t count, uint32_t stride) {
    if (SELDOM(hop)) return hyperram_start(HYPERRAM_IN, inner, outer, run, count, stride, 1, 0);
    return mchan_start_2d(MCHAN_IN, (uint32_t)inner, (uint32_t)outer, run, count, stride);
}

hal_ticket_t hal_dma_out_2d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t count, uint32_t stride) {
    if (SELDOM(hop)) return hyperram_start(HYPERRAM_OUT, inner, outer, run, count, stride, 1, 0);
    return mchan_start_2d(MCHAN_OUT, (uint32_t)inner, (uint32_t)outer, run, count, stride);
}

hal_ticket_t hal_dma_in_3d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t count, uint32_t stride,
                           uint32_t planes, uint32_t plane_stride) {
    if (SELDOM(hop)) return hyperram_start(HYPERRAM_IN, inner, outer, run, count, stride, planes, plane_stride);
    return mchan_start_3d(MCHAN_IN, (uint32_t)inner, (uint32_t)outer, run, count, stride, planes, plane_stride);
}

hal_ticket_t hal_dma_out_3d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t count, uint32_t stride,
                            uint32_t planes, uint32_t plane_stride) {
    if (SELDOM(hop)) return hyperram_start(HYPERRAM_OUT, inner, outer, run, count, stride, planes, plane_stride);
    return mchan_start_3d(MCHAN_OUT, (uint32_t)inner, (uint32_t)outer, run, count, stride, planes, plane_stride);
}
