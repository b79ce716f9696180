/* Vector table and the way to main on QEMU's Cortex-M boards; what is printed goes through semihosting. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern uint32_t stack_top[], data_load[], data_begin[], data_end[], bss_begin[], bss_end[];
extern void initialise_monitor_handles(void);
int main(void);

#define CPACR (*(volatile uint32_t *)0xe000ed88u)

void start(void) {
    CPACR |= 0xfu << 20; /* the floating-point unit, for all; without one nothing happens */
    __asm volatile("dsb\n isb");
    memcpy(data_begin, data_load, (size_t)((char *)data_end - (char *)data_begin));
    memset(bss_begin, 0, (size_t)((char *)bss_end - (char *)bss_begin));
    initialise_monitor_handles();
    exit(main());
}

static void fault(void) { exit(70); }

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, (void *)start, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
};
