"""How exposed is a model to planted, correctly labelled rows, and what can be promised instead?

Breast cancer data from scikit-learn; the spam data set as well if COUNTERPLAY_DATA names a folder
that holds it.
"""

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from counterplay import datasets
from counterplay.errors import DataUnavailableError
from counterplay.poisoning import PartitionClassifier, choose_n_partitions, poisoning_report

X, y = datasets.load("breast_cancer", return_X_y=True)
pipe = make_pipeline(StandardScaler(), SVC(kernel="linear", C=100.0))

print("1. Can somebody flip single decisions by adding one true example?")
report = poisoning_report(pipe, X[:200], y[:200], budget=1, n_test=40, random_state=0)
print(report.summary())
print(report.to_frame().head(5).to_string(index=False))

print("\n2. How many blocks should a guarded version have, against 3 planted rows?")
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
curve = choose_n_partitions(pipe, X_train, y_train, budget=3)
print(curve.to_frame().round(3).to_string(index=False))

print("\n3. The guarded model: every prediction says how many planted rows it survives.")
guarded = PartitionClassifier(pipe, curve.best).fit(X_train, y_train)
print(guarded.certified_accuracy(X_test, y_test).summary())
guarded.certified_accuracy(X_test, y_test).plot().figure.savefig("poisoning_spam_filter.png")
print("first ten predictions survive", guarded.certify(X_test[:10]), "planted rows")

try:
    X, y = datasets.fetch("spambase", return_X_y=True)
except DataUnavailableError:
    print("\n4. (Set COUNTERPLAY_DATA to a folder with spambase to see a spam filter.)")
else:
    print("\n4. A spam filter trained on user reports, 101 blocks:")
    X = np.log1p(np.asarray(X, dtype=float))
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    spam = PartitionClassifier(DecisionTreeClassifier(max_depth=6), 101).fit(X_train, y_train)
    print(spam.certified_accuracy(X_test, y_test).summary())
