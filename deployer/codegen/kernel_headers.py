"""C headers of kernels, with the argument structs that the operators declare."""

from deployer.core.kernel import Kernel

ELEMENTS = {"float32": "float", "int32": "int32_t", "int8": "int8_t", "uint8": "uint8_t"}
"""Element types in C."""
C_TYPES = {"u32": "uint32_t", "i32": "int32_t", "f32": "float", **ELEMENTS}


def kernel_header(kernel: Kernel) -> str:
    """Text of `<symbol>.h`: argument struct and prototype."""
    guard = f"{kernel.symbol.upper()}_H"
    fields = [f"    {'' if output else 'const '}{C_TYPES[dtype]} *{name};" for name, dtype, output in kernel.pointers]
    fields += [f"    {C_TYPES[ctype]} {name};" for name, ctype in kernel.scalars]
    return "\n".join(
        [
            f"/* Arguments of {kernel.symbol}, as its operator declares them. */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stdint.h>",
            "",
            "typedef struct {",
            *fields,
            f"}} {kernel.symbol}_args_t;",
            "",
            f"void {kernel.symbol}(const void *args);",
            "",
            "#endif",
            "",
        ]
    )
