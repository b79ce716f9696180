/* Transfers between L2 and L3, the HyperRAM behind the micro-DMA. L3 is not mapped: its addresses are offsets into it. */
#ifndef HYPERRAM_H
#define HYPERRAM_H

#include "hal.h"

typedef enum { HYPERRAM_IN, HYPERRAM_OUT } hyperram_direction_t;

/* What tells the tickets of this engine from MCHAN's, and on both engines the way out. */
#define TICKET_HYPERRAM 0x80000000u
#define TICKET_OUT 0x40000000u

/* Once, before the first transfer. */
void hyperram_init(void);
/* Returns when the transfer is queued, which takes long only where eight of its direction are already. */
hal_ticket_t hyperram_start(hyperram_direction_t direction, const void *inner, const void *outer, uint32_t run,
                            uint32_t count, uint32_t stride, uint32_t planes, uint32_t plane_stride);
void hyperram_wait(hal_ticket_t ticket);

#endif
