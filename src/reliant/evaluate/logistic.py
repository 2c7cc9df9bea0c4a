"""Multinomial logistic regression with an L2 penalty, the classifier of ``linear`` and ``few-shot`` (ours, not the paper's).

features (N, D) float32 standardised, class indices (N,) int64 → weights (D + 1, classes), the last row the intercept.

The objective is scikit-learn's divided by C·N: mean cross-entropy + ‖W‖² / (2 C N), the intercept unpenalised. Full-batch
L-BFGS minimises it, with three changes that pay where D is thousands and the features are correlated:

* the logits are kept and move along with the weights, so that a line search costs no product with the features;
* L-BFGS starts from the inverse of κ·covariance + penalty, κ the mean p(1 − p), in the place of the identity;
* it stops by a bound on what is left to gain: the objective is strongly convex with modulus ``penalty`` in W, so that
  ‖gradient‖² / (2 penalty) bounds objective − minimum (the intercept's share is divided by its own curvature).
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)

TOLERANCE = 1e-4  # the objective ends at most this share above its minimum
MEMORY = 12  # steps that L-BFGS remembers
ITERATIONS = 500
LARGEST_COVARIANCE = 8192  # features; beyond, D² costs more than it saves
DRIFT = 3.0  # factor by which κ may move before the metric is made anew
CURVATURE = 0.2  # slope at the end of a step / slope at its start
BLOCK = 1 << 22  # logits that a softmax takes at a time


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Where the minimisation ended: ``gap`` bounds objective − minimum, ``converged`` says that it is within the tolerance."""

    weights: Tensor
    objective: float
    gap: float
    iterations: int
    converged: bool


def covariance(features: Tensor) -> Tensor | None:
    """(N, D) → (D, D) mean of x xᵀ over about 4 D evenly spaced rows; None where D is too large for it to pay.

    It shapes the way to the minimum and not the minimum, so that a sample of the rows is enough.
    """
    count, dimension = features.shape
    if dimension > LARGEST_COVARIANCE:
        return None
    rows = features[:: max(1, count // (4 * dimension))]
    return (rows.T @ rows) / len(rows)


def rotated(features: Tensor) -> tuple[Tensor, Tensor | None]:
    """(N, D) → (N, N) and the orthonormal (D, N) that leads back, where D is at least 2 N; else the features and None.

    The minimum lies in the span of the rows, and a rotation changes neither products nor ‖W‖, so nothing is lost by
    looking for it there: few images of many dimensions cost what few dimensions cost.
    """
    import torch

    count, dimension = features.shape
    if dimension < 2 * count:
        return features, None
    basis, coordinates = torch.linalg.qr(features.T)
    return coordinates.T.contiguous(), basis


def restored(weights: Tensor, basis: Tensor | None) -> Tensor:
    """Weights of :func:`rotated` features as weights of the features."""
    import torch

    return weights if basis is None else torch.cat([basis @ weights[:-1], weights[-1:]])


def minimise(
    features: Tensor,
    labels: Tensor,
    *,
    classes: int,
    strength: float,
    start: Tensor | None = None,
    shape: Tensor | None = None,
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
) -> Fit:
    """The weights at which the objective is smallest; ``strength`` is C, ``shape`` the :func:`covariance` or None."""
    import torch

    count, dimension = features.shape
    penalty = 1.0 / (strength * count)
    weights = torch.zeros(dimension + 1, classes, device=features.device) if start is None else start.clone()
    logits = torch.addmm(weights[-1], features, weights[:-1])
    metric = _Metric(shape, penalty)
    history: deque[_Pair] = deque(maxlen=MEMORY)
    step: Tensor | None = None
    before: Tensor | None = None
    for iteration in range(iterations + 1):
        loss, residual, spread = _cross_entropy(logits, labels)
        objective = loss + 0.5 * penalty * _dot(weights[:-1], weights[:-1])
        # (RᵀX)ᵀ is several times faster than XᵀR for the row-major X.
        slopes = _product(residual.T, features).T + penalty * weights[:-1]
        intercept = residual.sum(0, keepdim=True)
        gap = _dot(slopes, slopes) / (2.0 * penalty) + _dot(intercept, intercept) / (2.0 * float(spread.min()))
        if gap <= tolerance * objective or iteration == iterations:
            break
        gradient = torch.cat([slopes, intercept])
        if step is not None and before is not None:
            _remember(history, step, gradient - before)
        metric.adapt(float(spread.mean()))
        direction = _direction(gradient, history, metric)
        moved = _product(features, direction[:-1]) + direction[-1]
        length = _line_search(weights[:-1], direction[:-1], logits, moved, labels, penalty)
        if length <= 0.0:  # float32 shows no descent any more
            break
        step, before = direction * length, gradient
        weights += step
        logits.add_(moved, alpha=length)
    if gap > tolerance * objective:
        log.warning(
            f"logistic regression at C = {strength:g} stopped after {iteration} iterations, "
            f"at most {gap:.2g} above the minimum of {objective:.4g}"
        )
    return Fit(weights=weights, objective=objective, gap=gap, iterations=iteration, converged=gap <= tolerance * objective)


@dataclass(frozen=True)
class _Pair:
    """A step, the change of the gradient over it, and their product."""

    step: Tensor
    change: Tensor
    product: float


def _remember(history: deque[_Pair], step: Tensor, change: Tensor) -> None:
    product = _dot(step, change)
    if product > 0.0:  # rounding can hide the curvature of the last, shortest steps
        history.append(_Pair(step, change, product))


class _Metric:
    """The inverse of κ·covariance + penalty, which stands in for the Hessian of every class; the identity without a shape."""

    def __init__(self, shape: Tensor | None, penalty: float) -> None:
        self.shape, self.penalty, self.kappa = shape, penalty, 0.0
        self.inverse: Tensor | None = None

    def adapt(self, kappa: float) -> None:
        """Follow κ, which falls as the classes part, whenever it has moved by more than a factor."""
        import torch

        if self.shape is None or self.kappa / DRIFT <= kappa <= self.kappa * DRIFT:
            return
        self.kappa = kappa
        # The floor keeps the matrix positive definite in float32 where N < D or columns are constant.
        ridge = max(self.penalty / kappa, 1e-6 * float(torch.linalg.matrix_norm(self.shape)), 1e-12)
        ridged = self.shape.clone()
        ridged.diagonal().add_(ridge)
        # The inverse itself: it is applied a hundred times, and a product is three times faster than two triangular solves.
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(ridged))

    def apply(self, gradient: Tensor) -> Tensor:
        import torch

        if self.inverse is None:
            return gradient
        # Standardised features have mean 0, so the intercept stands alone in the covariance, with the entry 1.
        return torch.cat([_product(gradient[:-1].T, self.inverse).T, gradient[-1:]]) / self.kappa


def _direction(gradient: Tensor, history: deque[_Pair], metric: _Metric) -> Tensor:
    """Minus the L-BFGS inverse Hessian times the gradient, by the two-loop recursion."""
    rest = gradient.clone()
    pulls = []
    for pair in reversed(history):
        pull = _dot(pair.step, rest) / pair.product
        rest -= pull * pair.change
        pulls.append(pull)
    rest = metric.apply(rest)
    if history and metric.inverse is None:  # the metric has a scale of its own, the identity has not
        rest = rest * (history[-1].product / _dot(history[-1].change, history[-1].change))
    for pair, pull in zip(history, reversed(pulls), strict=True):
        rest = rest + (pull - _dot(pair.change, rest) / pair.product) * pair.step
    return -rest


def _line_search(weights: Tensor, direction: Tensor, logits: Tensor, moved: Tensor, labels: Tensor, penalty: float) -> float:
    """The step at which the slope along the direction has all but vanished: Newton's method in a bracket; 0 where none is."""
    across, along = _dot(weights, direction), _dot(direction, direction)

    def derivatives(step: float) -> tuple[float, float]:
        slope, curvature = _along(logits, moved, labels, step)
        return slope + penalty * (across + step * along), curvature + penalty * along

    first, _ = derivatives(0.0)
    if first >= 0.0:
        return 0.0
    low, high, step = 0.0, float("inf"), 1.0
    for _ in range(30):
        slope, curvature = derivatives(step)
        if abs(slope) <= CURVATURE * -first:
            return step
        low, high = (step, high) if slope < 0.0 else (low, step)
        newton = step - slope / curvature if curvature > 0.0 else low
        if low < newton < min(high, 8.0 * step):
            step = newton
        else:
            step = 4.0 * step if high == float("inf") else 0.5 * (low + high)
    return low


def _cross_entropy(logits: Tensor, labels: Tensor) -> tuple[float, Tensor, Tensor]:
    """Mean cross-entropy, its derivative (p − onehot) / N, and the mean p(1 − p) of every class."""
    import torch

    count, classes = logits.shape
    residual = torch.empty_like(logits)
    total, spread = 0.0, torch.zeros(classes, dtype=torch.float64, device=logits.device)
    for rows in _blocks(count, classes):
        logs = torch.log_softmax(logits[rows], 1)
        truth = labels[rows, None]
        total -= float(logs.gather(1, truth).sum(dtype=torch.float64))
        chances = logs.exp_()
        spread += (chances * (1 - chances)).sum(0, dtype=torch.float64)
        chances.scatter_(1, truth, chances.gather(1, truth) - 1)
        torch.div(chances, count, out=residual[rows])
    return total / count, residual, (spread / count).clamp_(min=1e-12)


def _along(logits: Tensor, moved: Tensor, labels: Tensor, step: float) -> tuple[float, float]:
    """First and second derivative, by the step, of the mean cross-entropy of logits + step · moved."""
    import torch

    count, classes = logits.shape
    slope = curvature = 0.0
    for rows in _blocks(count, classes):
        change = moved[rows]
        weighted = torch.softmax(logits[rows] + step * change, 1) * change
        mean = weighted.sum(1)
        slope += float((mean - change.gather(1, labels[rows, None])[:, 0]).sum(dtype=torch.float64))
        curvature += float(((weighted * change).sum(1) - mean * mean).sum(dtype=torch.float64))
    return slope / count, curvature / count


def _blocks(count: int, classes: int) -> list[slice]:
    size = max(1, BLOCK // classes)
    return [slice(start, start + size) for start in range(0, count, size)]


def _product(left: Tensor, right: Tensor) -> Tensor:
    """A large table times a narrow one; on a CPU NumPy's BLAS is nearly twice as fast at that as torch's."""
    import torch

    if left.device.type != "cpu":
        return left @ right
    return torch.from_numpy(left.numpy() @ right.numpy())


def _dot(left: Tensor, right: Tensor) -> float:
    import torch

    return float((left * right).sum(dtype=torch.float64))
