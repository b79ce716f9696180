# Reset of Spike's one core: FPU on, stack, main, end. Zeroed data are part of the program's file.
    .section .text.start, "ax"
    .globl _start
_start:
    la sp, stack_top
    li t0, 0x2000            # mstatus.FS = initial
    csrs mstatus, t0
    fscsr zero
    la t0, trap
    csrw mtvec, t0
    call main
    call end_program

    .balign 4
trap:
    li a0, 99
    call end_program
