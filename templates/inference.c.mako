/* ${v.provenance}
 *
 * Loads constants and inputs, runs the graph once, dumps the outputs.
 */
#include "Network.h"
#include "format.h"

const uint32_t hal_plan_cores = ${v.cores}; /* what the plan was made for */

int main(int argc, char **argv) {
    char text[32];
    hal_init(argc, argv);
% for name, size in v.loaded:
    hal_read(${name}, ${size});
% endfor
% for name, size in v.data:
    hal_read(${name}, ${size});
% endfor
    const uint64_t begin = hal_cycles();
    ${v.run}
    text[format_u64(text, hal_cycles() - begin)] = 0;
% for name, size in v.results:
    hal_write(${name}, ${size});
% endfor
    hal_print("BENCH ${v.label}=");
    hal_print(text);
    hal_print(" ${v.footprint} clock=${v.clock}\n");
    hal_exit(0);
}
