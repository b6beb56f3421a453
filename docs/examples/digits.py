"""scikit-learn's MLPClassifier on its 8 × 8 digits: how many hidden units do n classes need?"""

from __future__ import annotations

import io
from dataclasses import dataclass

import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier


@dataclass(frozen=True)
class Digits:
    """A network with one hidden layer, trained for `steps` passes over the first n digits."""

    hidden: int
    classes: int = 10
    steps: int = 20

    task = "digits"
    size_field = "classes"
    metrics = {"acc": "up", "f1": "up"}

    def start(self, seed: int, device: str) -> Fit:
        return Fit(self, seed)


class Fit:
    def __init__(self, run: Digits, seed: int) -> None:
        self.classes = np.arange(run.classes)
        images, digits = load_digits(n_class=run.classes, return_X_y=True)
        self.data = train_test_split(images / 16, digits, test_size=0.3, random_state=0)
        self.net = MLPClassifier((run.hidden,), learning_rate_init=0.01, random_state=seed)

    def advance(self) -> dict[str, float]:
        train, test, answers, expected = self.data
        self.net.partial_fit(train, answers, classes=self.classes)
        found = self.net.predict(test)
        f1 = f1_score(expected, found, average="macro")
        return {"acc": np.mean(found == expected), "f1": f1, "total": len(test)}

    def save(self) -> bytes:
        file = io.BytesIO()
        joblib.dump(self.net, file)
        return file.getvalue()

    def load(self, data: bytes) -> None:
        self.net = joblib.load(io.BytesIO(data))
