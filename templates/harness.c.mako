/* ${v.provenance}
 *
 * Loads the weights, runs ${v.updates} updates of ${v.accumulate} passes ${v.each}, compares losses, dumps losses and weights.
 * Before passes that the input file marks it dumps what one pass leaves to the next, so that each can be judged alone.
 * A pass whose loss is infinite or no number is the last one.
 */
#include "Network.h"
#include "format.h"

const uint32_t hal_plan_cores = ${v.cores}; /* what the plan was made for */

#define PASSES ${v.passes}u
#define ACCUMULATE ${v.accumulate}u

static float losses[PASSES];
% for name, count in v.numbers:
float ${name}[${count}];
% endfor

static void print_value(const char *label, uint32_t (*format)(char *, float), float value) {
    char text[32];
    text[format(text, value)] = 0;
    hal_print(label);
    hal_print(text);
}

static void print_count(const char *label, uint64_t value) {
    char text[32];
    text[format_u64(text, value)] = 0;
    hal_print(label);
    hal_print(text);
}

static uint32_t report_loss(uint32_t pass, float computed, float reference) {
    const float apart = computed > reference ? computed - reference : reference - computed;
    const float difference = computed == reference ? 0.0f : apart; /* equal infinities are no distance apart */
    print_count("[loss ", pass);
    print_value("] computed=", format_f32, computed);
    print_value(" ref=", format_f32, reference);
    print_value(" diff=", format_e6, difference);
    hal_print("\n");
    return !(difference <= ${v.tolerance});
}

static void dump_state(void) {
% for name, size in v.state:
    hal_write(${name}, ${size});
% endfor
}

int main(int argc, char **argv) {
    uint64_t train_cycles = 0, optimizer_cycles = 0;
    uint32_t errors = 0, passes = 0, is_finite = 1;
    hal_init(argc, argv);
% for name, size in v.loaded:
    hal_read(${name}, ${size});
% endfor
    while (is_finite && passes < PASSES) {
        const uint32_t pass = passes++;
        struct {
            float reference;
            uint32_t dumped;
        } due;
        hal_read(&due, sizeof(due));
        if (due.dumped) dump_state();
% for name, size in v.data:
        hal_read(${name}, ${size});
% endfor
% for name, count in v.numbers:
        if (${v.due}) hal_read(${name}, sizeof(${name}));
% endfor
        const uint64_t begin = hal_cycles();
        train_network_run(pass % ACCUMULATE == 0);
        train_cycles += hal_cycles() - begin;
        losses[pass] = *${v.loss};
        is_finite = losses[pass] - losses[pass] == 0.0f;
        errors += report_loss(pass, losses[pass], due.reference);
% for call in v.optimizer:
        if (${v.due}) {
            const uint64_t update = hal_cycles();
            ${call}
            optimizer_cycles += hal_cycles() - update;
        }
% endfor
    }
    hal_write(losses, passes * sizeof(float));
% for name, size in v.results:
    hal_write(${name}, ${size});
% endfor
    print_count("BENCH train_cycles=", train_cycles / passes);
    print_count(" opt_cycles=", optimizer_cycles / (${v.made}));
    hal_print(" ${v.footprint} clock=${v.clock}\n");
    print_count("Errors: ", errors);
    print_count(" out of ", passes);
    hal_print("\n");
    hal_exit(errors != 0);
}
