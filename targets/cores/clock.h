/* The clock of QEMU's Cortex-M machines: ticks of SysTick since the program began. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>

uint64_t clock_ticks(void);

#endif
