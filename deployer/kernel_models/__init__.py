"""Work splits of kernels: how their functions share blocks, lines and planes among cores, and what their parts cost."""
