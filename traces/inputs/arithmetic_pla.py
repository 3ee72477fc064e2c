"""Input for espresso: the truth table of small arithmetic functions, as a PLA.

Eight inputs, read as two 4-bit numbers a and b; thirteen outputs: the product a*b (8 bits), the
integer square root of the eight bits together (4), and whether their ones are 3 to 5 (1). Such
functions (mlp4, root, 9sym) are the classics of espresso's own benchmark set. Every seventh row
is "don't care", so that the minimiser has a choice.
"""
from math import isqrt

BITS = 8

print(f".i {BITS}")
print(".o 13")
print(".type fd")
for row in range(2**BITS):
    a, b = divmod(row, 2 ** (BITS // 2))
    few = 3 <= bin(row).count("1") <= 5
    outputs = "-" * 13 if row % 7 == 0 else f"{a * b:08b}{isqrt(row):04b}{few:d}"
    print(f"{row:0{BITS}b} {outputs}")
print(".e")
