"""scikit-learn, with its own progress on standard output."""

import sys

from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss

import sweepd

alpha, seed = float(sys.argv[1]), int(sys.argv[2])
images, digits = load_digits(return_X_y=True)
net = SGDClassifier("log_loss", alpha=alpha, random_state=seed, verbose=1)
for step in (1, 2):
    net.partial_fit(images[:1200], digits[:1200], classes=range(10))
    loss = log_loss(digits[1200:], net.predict_proba(images[1200:]))
    sweepd.report(step=step, loss=loss, total=597)
sweepd.report(step=2, loss=loss, total=597, test=True)
