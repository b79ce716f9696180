/* What a bare-metal RISC-V target adds to the shared platform code. */
#ifndef PLATFORM_H
#define PLATFORM_H

#include <stdint.h>

/* Sends one character to the console. */
void platform_putc(char character);
/* Ends the simulation; the host sees the code, or at least whether it is zero. */
_Noreturn void platform_exit(int code);
/* Starts the clock behind hal_cycles, and the watchdog that a step of more than WATCHDOG_LIMIT ticks runs into. */
void platform_init(int argc, char **argv);
/* The step that hal_step named last. */
uint32_t platform_step(void);
/* Whether a core can read and write there. All else is moved through the outermost hop. */
int platform_mapped(const void *address);
/* Closes a semihosting file; the simulators disagree about the call's argument. */
void platform_close(intptr_t file);

/* Says what is wrong, in which step, and ends the run. */
_Noreturn void platform_fail(const char *what);
/* From the trap vector: says what happened in which step, and ends the run. The one interrupt is the
 * watchdog's: a step that does not end. */
_Noreturn void trap_report(uint32_t cause, uint32_t pc, uint32_t value);
#define TRAP_INTERRUPT 0x80000000u

#endif
