"""PyTorch modules whose training artifacts generate_torch.py makes: ordinary nets, each small."""

import image_nets  # noqa: F401
import sequence_nets  # noqa: F401
from net_parts import NETS  # noqa: F401
