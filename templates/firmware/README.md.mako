# ${v.name}

Training of, and prediction with, the model of case `${v.case}`, made by deployer for target ${v.target}. C11 without heap, without stdio, without state outside of `${v.name}_t`; the header
`include/${v.name}.h` documents every function and is C99 and C++17.

<%text>##</%text> Sizes

| what | bytes | where |
|---|---:|---|
% for row in v.size_rows:
| ${row.what} | ${row.bytes} | ${row.where} |
% endfor

Of the memory, ${v.kept_bytes} B last (weights, what optimizer and norms keep, and gradients that several passes add to); the rest is shared
by other gradients and values of passes, updates and predictions. Code comes on top: `size build/lib${v.name}.a` says how much with your compiler.

<%text>##</%text> Data

| input | C | elements |
|---|---|---|
% for t in v.inputs:
| `${t.cell}` | `${t.type} *${v.name}_input_${t.name}(&model)` | `${t.shape}`, ${t.count} in all |
% endfor
% for t in v.output:
| `${t.cell}`, predicted | `const ${t.type} *${v.name}_output(&model)` | `${t.shape}`, ${t.count} in all |
% endfor

Arrays are packed, the last index runs fastest. No call changes an input. What is predicted stays until the next pass, update or prediction.

<%text>##</%text> Use

```c
#include "${v.name}.h"

static ${v.name}_t model; /* ${v.struct_bytes} bytes */

int train(void) {
    float loss;
    if (${v.name}_init(&model) != ${v.upper}_OK) return 1;
    for (uint32_t pass = 0; pass < ${v.upper}_ACCUMULATE; pass++) { /* ${v.accumulate} per update */
% for t in v.inputs:
        /* fill ${v.name}_input_${t.name}(&model) */
% endfor
        if (${v.name}_train_step(&model, &loss) != ${v.upper}_OK) return 1;
    }
    return ${v.name}_update(&model) != ${v.upper}_OK;
}
```

`examples/main.c` trains on samples of the case and prints each loss: `make run`, or

```sh
cmake -B build && cmake --build build && build/${v.name}_example
```

As a part of other projects: `add_subdirectory(${v.name})` and `target_link_libraries(app ${v.name})`, or all of `src/*.c` with
`include/` among the include folders and the flags `${v.flags}`; without them a compiler may round otherwise.

A pass has ${v.train_steps} steps, and can be made in parts, between other duties: `${v.name}_train_step_begin`, then
`${v.name}_train_step_continue` with a budget of cycles until it says that it is done. It returns at the end of the step in which the budget
was spent, so that the longest step is how much later than its budget it may be. A build with `-DHAL_CYCLES=function` counts by that
function of yours (`uint32_t function(void)`), others by what is predicted for target ${v.costs}.

| predicted on one core | cycles | target |
|---|---:|---|
% for segment in v.segments:
| pass | ${segment.pass_cycles} | `${segment.machine}` |
| its longest step, `${segment.title}` | ${segment.longest_cycles} | `${segment.machine}` |
% for name, cycles in segment.others:
| ${name}, in one go | ${cycles} | `${segment.machine}` |
% endfor
% endfor

With `-D${v.upper}_ASSERTS`, the library checks what it takes for granted of itself by C's `assert`.

For Zephyr, the folder is a module: `west build ... -- -DZEPHYR_EXTRA_MODULES=$PWD/${v.name}` with `CONFIG_${v.upper}=y`, and with
`CONFIG_CBPRINTF_FP_SUPPORT=y` for what the example prints; a module of this kind was built with Zephyr 3.3 and trained in its emulator.
For ESP-IDF it is a component: put it into `components/`. PlatformIO and the Arduino tools read `library.json` and `library.properties`.
These three were tried against stubs of their build systems and by their formats, not with the systems themselves. Arduino's cores need
`compiler.c.extra_flags=-fno-fast-math -ffp-contract=off` in `platform.local.txt`: a library's description has no place for flags.

<%text>##</%text> Learning rates

${v.rate_text}

<%text>##</%text> State

An image of the state is made by `${v.name}_save` in memory, and by `${v.name}_flash_save` in flash; `${v.name}_load` and
`${v.name}_flash_load` take it back, on any machine. `weights.bin` is the state that a run begins with.

| kind | holds | bytes |
|---|---|---:|
| `${v.upper}_KEEP_STATE` | all tensors below, and gradients that several passes add to: training goes on with the same bits | ${v.state_bytes} |
| `${v.upper}_KEEP_WEIGHTS` | weights; loaded, the optimizer is as at first | ${v.weights_bytes} |
| `${v.upper}_KEEP_CHANGES` | weights that differ from the first ones, for libraries that begin with the same | at most ${v.changes_bytes} |

Flash has two slots for images, in sectors of their own, each with room for ${v.upper}_SLOT_HEAD bytes and an image, then twice for ${v.upper}_SLOT_DONE bytes, each in
whole units; and three functions:

```c
static int flash_read(void *context, uint32_t address, void *bytes, uint32_t count);
static int flash_write(void *context, uint32_t address, const void *bytes, uint32_t count); /* one unit */
static int flash_erase(void *context, uint32_t address, uint32_t count);                    /* a slot */

static const ${v.name}_flash_t flash = {
    .read = flash_read, .write = flash_write, .erase = flash_erase,
    .slots = {0x08040000, 0x08060000}, .slot_bytes = 0x20000, .unit_bytes = 4, /* an example */
};
```

They answer 0 where all went well; reading an address whose bits were cut may fail, and never must end the program. After `${v.name}_init`,
`${v.name}_flash_load` finds the last image that is whole; a cut of the power at any time costs no more than the save that it ends.
`deployer state show FILE` reads images, and dumps of flash; the format is in deployer's documentation.

| index | tensor | elements | |
|---:|---|---|---|
% for row in v.weight_rows:
| ${row.index} | `${row.label}` | `${row.kind}${row.shape}` | ${row.role} |
% endfor

<%text>##</%text> Other machines

`src/hal.h` is all that kernels know of the machine: which core runs, and how many there are. What is needed besides is a multiplication and
addition with one rounding (`fmaf`, an instruction of most floating-point units) and no flushing of subnormals; `${v.name}_init` checks both.
Arm and RISC-V cores without that instruction take a function of the library's own, which computes the same bits by integers; where
`${v.name}_init` answers `${v.upper}_ERROR_MACHINE` on another machine, the flag `-DHAL_OWN_FMA` takes it there.

The code is under the Apache-2.0 licence in `LICENSE`; weights and samples are yours.
