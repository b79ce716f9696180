# Reset of the one core: FPU on, trap vector, stack, zeroed data, main.
    .section .text.start, "ax"
    .globl _start
_start:
    la sp, stack_top
    la t0, trap_entry
    csrw mtvec, t0
    li t0, 0x2000            # mstatus.FS = initial
    csrs mstatus, t0
    fscsr zero
    la t0, bss_begin
    la t1, bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  li a0, 0
    li a1, 0
    call main
    call hal_exit

    .balign 4
trap_entry:
    la sp, stack_top
    csrr a0, mcause
    csrr a1, mepc
    csrr a2, mtval
    call trap_report
