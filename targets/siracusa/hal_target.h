/* Siracusa's cluster: argument tables at the start of L1, core number and count without a call, quotients without the
 * divider, hardware loops. */
#ifndef HAL_TARGET_H
#define HAL_TARGET_H

#include <stdint.h>

#define HAL_TABLE __attribute__((section(".hal_table")))
#define HAL_INLINE_CORES
#define HAL_QUOTIENT
#define HAL_LINES
#define HAL_ROWS

/* The cluster's own words behind the stacks at the end of L1; link.ld keeps them free. */
typedef struct {
    void (*volatile kernel)(const void *args);
    const void *volatile args;
    volatile uint32_t cores;
    volatile uint32_t step;
} cluster_job_t;
#define CLUSTER_JOB ((cluster_job_t *)0x1003fc00)

static inline uint32_t hal_core_id(void) {
    uint32_t hart;
    __asm__("csrr %0, mhartid" : "=r"(hart));
    return hart & 31u;
}

static inline uint32_t hal_core_count(void) {
    return CLUSTER_JOB->cores;
}

#endif
