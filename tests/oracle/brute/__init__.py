"""Reference laws of the mechanisms, by brute force over rationals; they share no code with them.

A probability is a `Fraction`, a loss e^epsilon comes in as one. `scale` is the N over which a
threshold or weight is an integer; small scales make cases a person can check. Good for k <= 4.
"""

SCALE = 1 << 24
