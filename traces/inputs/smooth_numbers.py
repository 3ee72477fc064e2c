"""Input for GNU factor: 1,000 numbers above 2^200, each a product of random factors below 10^7.

Numbers of this size make factor leave its two-word arithmetic for GMP, whose every temporary is
a block of the C library; the small factors keep Pollard's rho to milliseconds a number.
"""
import random

rng = random.Random(1984)
for _ in range(1000):
    number = 1
    while number < 2**200:
        number *= 2 + int(rng.random() * 10**7)
    print(number)
