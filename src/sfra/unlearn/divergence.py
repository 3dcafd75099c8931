"""The divergence by which a student is drawn to, or driven from, a teacher."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import kl_div

from sfra.core.types import Logits


def kl(teacher: Logits, student: Logits, *, temperature: float = 1.0) -> Float[Tensor, ""]:
    """Compute ``T² · KL(p‖q)``, averaged over the samples.

    ``p = softmax(teacher / T)`` and ``q = softmax(student / T)``; ``KL(p‖q) = Σ_j p_j (log p_j - log q_j)``
    with ``0 log 0 = 0``, so that a teacher logit of ``-inf`` is allowed. The factor ``T²`` keeps the size of
    the gradient when ``T`` changes.
    """
    log_student = (student / temperature).log_softmax(1)
    target = (teacher / temperature).softmax(1)
    return kl_div(log_student, target, reduction="batchmean") * temperature**2
