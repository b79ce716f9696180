/* ${v.provenance}
 *
 * A stretch of a run: loads the state that the run has come to, makes as many passes as its input says, dumps what each gives
 * and the state after the last. Stretches one after another give the bits of one long run.
 * A pass whose loss is infinite or no number is the last one.
 */
#include "Network.h"
#include "format.h"

const uint32_t hal_plan_cores = ${v.cores}; /* what the plan was made for */

#define ACCUMULATE ${v.accumulate}u
% for name, count in v.numbers:

float ${name}[${count}];
% endfor

static void print_count(const char *label, uint64_t value) {
    char text[32];
    text[format_u64(text, value)] = 0;
    hal_print(label);
    hal_print(text);
}

int main(int argc, char **argv) {
    struct {
        uint32_t passes, accumulated, flushes; /* an update follows the last pass, whatever their number */
    } due;
    uint64_t run_cycles = 0, update_cycles = 0;
    hal_init(argc, argv);
% for name, size in (*v.loaded, *v.carried):
    hal_read(${name}, ${size});
% endfor
    hal_read(&due, sizeof(due));
    uint32_t accumulated = due.accumulated; /* passes since the last update */
    for (uint32_t pass = 0, is_finite = 1; is_finite && pass < due.passes; pass++) {
% for name, size in v.data:
        hal_read(${name}, ${size});
% endfor
% for condition in v.due:
        const uint32_t updates = ${condition};
% endfor
% for name, count in v.numbers:
        if (updates) hal_read(${name}, sizeof(${name}));
% endfor
        const uint64_t begin = hal_cycles();
        ${v.run}
        run_cycles += hal_cycles() - begin;
% for name, size in v.results:
        hal_write(${name}, ${size});
% endfor
% for loss in v.loss:
        is_finite = *${loss} - *${loss} == 0.0f;
% endfor
        accumulated = accumulated + 1 < ACCUMULATE ? accumulated + 1 : 0;
% for call in v.optimizer:
        if (updates) {
            const uint64_t update = hal_cycles();
            ${call}
            update_cycles += hal_cycles() - update;
        }
% endfor
    }
% for name, size in v.state:
    hal_write(${name}, ${size});
% endfor
    print_count("BENCH run_cycles=", run_cycles);
    print_count(" update_cycles=", update_cycles);
    hal_print(" ${v.footprint} clock=${v.clock}\n");
    hal_exit(0);
}
