/* Ends the run at once where the machine does not compute as the kernels need. */
#include "exact_f32.h"
#include "hal_host.h"

void exact_init(void) {
    exact_fault_t fault;
    if (exact_lacking()) host_unfit("it is built for %s, which this processor does not have", exact_lacking());
    if (exact_fault(&fault))
        host_unfit("fmaf of the floats %08x, %08x and %08x is %08x, and rounded once it is %08x", fault.x, fault.y, fault.z,
                   fault.found, fault.exact);
}
