"""Input for f2c: a Fortran 77 program of 80 subroutines with loops, branches and calls.

The subroutines are what a numerical library of the time is made of: stencils, recurrences, table
look-ups and formatted output over arrays, with COMMON blocks, DATA statements and labels.
"""
import random

SUBROUTINES = 80
rng = random.Random(1984)


def below(n):
    return int(rng.random() * n)


def term(depth):
    """An arithmetic expression of the given depth over the variables every subroutine declares."""
    if depth == 0:
        return ["A(I)", "B(I)", "C(I,J)", "X", "Y", f"{1 + below(99)}.{below(10)}D0"][below(6)]
    left, right = term(depth - 1), term(depth - 1)
    form = below(4)
    if form == 0:
        return f"DSQRT(DABS({left}))"
    if form == 1:
        return f"DMAX1({left},\n     +    {right})"
    return f"({left}{'+-*'[below(3)]}\n     +    {right})"


def subroutine(number):
    print(f"      SUBROUTINE S{number:03}(N,A,B,C,X)")
    print("      INTEGER N,I,J,K,NTAB")
    print("      DOUBLE PRECISION A(N),B(N),C(N,N),X,Y,W,TAB(5)")
    print(f"      COMMON /BLK{number % 8}/ W(64)")
    table = ",".join(f"{below(100)}.{below(10)}D0" for _ in range(5))
    print(f"      DATA NTAB/5/,TAB/{table}/")
    print("      Y=X")
    label = 10
    for _ in range(3 + below(4)):
        print(f"      DO {label} J=1,N")
        print(f"      DO {label} I=1,N")
        print(f"        C(I,J)={term(2)}")
        print(f"        IF (C(I,J).GT.{term(0)}) THEN")
        print(f"          A(I)={term(2)}")
        print("        ELSE IF (NTAB.EQ.5) THEN")
        print(f"          B(J)=TAB(1+MOD(I,NTAB))*{term(1)}")
        print("        ELSE")
        print(f"          W(1+MOD(I,64))={term(1)}")
        print("        END IF")
        print(f"{label:5} CONTINUE")
        label += 10
    print("      DO 900 K=1,NTAB")
    print("        Y=Y+TAB(K)")
    print("  900 CONTINUE")
    if number > 0:
        print(f"      IF (Y.GT.X) CALL S{below(number):03}(N-1,A,B,C,Y)")
    print("      WRITE(6,910) N,X,Y")
    print("  910 FORMAT(1X,I6,2(1X,E15.7))")
    print("      END")


print("      PROGRAM MAIN")
print("      DOUBLE PRECISION A(50),B(50),C(50,50)")
print(f"      CALL S{SUBROUTINES - 1:03}(50,A,B,C,1.0D0)")
print("      END")
for number in range(SUBROUTINES):
    subroutine(number)
