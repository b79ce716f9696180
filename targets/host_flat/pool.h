/* Threads for the cores beyond the first: started once, they wait between kernels and take no memory. */
#ifndef POOL_H
#define POOL_H

#include "hal.h"

/* Starts the threads of cores 1.. below `cores`; those that could be started, and the first. */
uint32_t pool_start(uint32_t cores);
/* Runs the kernel as each of the cores, and returns when all are done. */
void pool_run(hal_kernel_t kernel, const void *args);

#endif
