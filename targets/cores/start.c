/* Vector table and the way to main on QEMU's Cortex-M machines, and a clock; what is printed goes through semihosting. */
#include "clock.h"

#include <stdlib.h>
#include <string.h>

extern uint32_t stack_top[], data_load[], data_begin[], data_end[], bss_begin[], bss_end[];
extern void initialise_monitor_handles(void);
int main(void);

#define CPACR (*(volatile uint32_t *)0xe000ed88u)
#define VTOR (*(volatile const void *volatile *)0xe000ed08u)
#define SYSTICK ((volatile uint32_t *)0xe000e010u) /* control, reload value, current value */

enum { CONTROL, RELOAD, CURRENT, RUNNING = 7, MOST = 0xffffff };

static volatile uint32_t rounds;

uint64_t clock_ticks(void) {
    uint32_t round, left;
    do {
        round = rounds;
        left = SYSTICK[CURRENT];
    } while (round != rounds);
    return (uint64_t)round * (MOST + 1u) + (MOST - left);
}

static void systick(void) { rounds = rounds + 1u; }

extern const void *const vectors[];

void start(void) {
    CPACR |= 0xfu << 20; /* the floating-point unit, for all; without one nothing happens */
    __asm volatile("dsb\n isb");
    memcpy(data_begin, data_load, (size_t)((char *)data_end - (char *)data_begin));
    memset(bss_begin, 0, (size_t)((char *)bss_end - (char *)bss_begin));
    VTOR = vectors;
    SYSTICK[RELOAD] = MOST;
    SYSTICK[CURRENT] = 0;
    SYSTICK[CONTROL] = RUNNING;
    initialise_monitor_handles();
    exit(main());
}

static void fault(void) { exit(70); }

__attribute__((section(".vectors"), used)) const void *const vectors[16] = {
    stack_top,     (void *)start, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
    (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)systick,
};
