# ${v.name}

Training of, and prediction with, the model of case `${v.case}`, made by deployer for target ${v.target}. C11 without heap, without stdio, without state outside of `${v.name}_t`; the header
`include/${v.name}.h` documents every function and is C99 and C++17.

<%text>##</%text> Sizes

| what | bytes | where |
|---|---:|---|
% for row in v.size_rows:
| ${row.what} | ${row.bytes} | ${row.where} |
% endfor

Of the memory, ${v.kept_bytes} B last (weights, and what optimizer and norms keep); the rest is shared by gradients and values of passes,
updates and predictions. Code comes on top: `size build/lib${v.name}.a` says how much with your compiler.

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

A pass has ${v.train_steps} steps, and can be made in parts, between other duties: `${v.name}_train_step_begin`, then `${v.name}_train_step_continue`
until it says that it is done.

For Zephyr, the folder is a module: `west build ... -- -DZEPHYR_EXTRA_MODULES=$PWD/${v.name}` with `CONFIG_${v.upper}=y`. For ESP-IDF it is a
component: put it into `components/`. PlatformIO and the Arduino tools read `library.json` and `library.properties`. These four were tried
against stubs of their build systems and by their formats, not with the systems themselves.

<%text>##</%text> Learning rates

${v.rate_text}

<%text>##</%text> State

`${v.name}_save` writes ${v.state_bytes} bytes, `${v.name}_load` takes them back, on any machine; `weights.bin` is the state that a run begins
with. All numbers are little-endian: `dply`, the format's version, the model's identity (8 bytes), the length, the passes since the last
update, then these tensors, and the 64-bit FNV-1a digest of all that.

| index | tensor | elements |
|---:|---|---|
% for row in v.weight_rows:
| ${row.index} | `${row.label}` | `${row.kind}${row.shape}` |
% endfor

<%text>##</%text> Other machines

`src/hal.h` is all that kernels know of the machine: which core runs, and how many there are. What is needed besides is a multiplication and
addition with one rounding (`fmaf`, an instruction of most floating-point units) and no flushing of subnormals; `${v.name}_init` checks both.
Where it answers `${v.upper}_ERROR_MACHINE`, as on cores without floating-point unit, the flag `-DHAL_OWN_FMA` takes a function of the
library's own, which computes the same bits by integers.

The code is under the Apache-2.0 licence in `LICENSE`; weights and samples are yours.
