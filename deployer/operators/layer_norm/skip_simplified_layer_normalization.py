"""SkipSimplifiedLayerNormalization: an RMS norm of X + skip + bias, as ONNX Runtime joins the two."""

from deployer.core.forms import Form
from deployer.core.operator import register
from deployer.operators.layer_norm.skip_layer_normalization import TOTAL, SkipNormalization


@register
class SkipSimplifiedLayerNormalization(SkipNormalization):
    """X, skip, scale[, bias of the sum] to Y[, nothing, inv_std, sum]."""

    name = "SkipSimplifiedLayerNormalization"
    custom = Form((3, 4), (1, TOTAL + 1), {"epsilon": "FLOAT"})
    of = "SimplifiedLayerNormalization"
    factors = 1
    statistics = (2,)
