"""Input for redis-cli --pipe: 15,000 commands on strings, hashes, lists, sets and sorted sets.

Keys are drawn from a few thousand, so values are overwritten, grow, shrink and are deleted; sets of
many members are unlinked, which frees them in another thread.
The commands are in the RESP protocol.
"""
import random
import sys

rng = random.Random(1984)


def below(n):
    return int(rng.random() * n)


def value():
    """Mostly short, now and then a few kilobytes."""
    length = 2000 + below(6000) if below(40) == 0 else 4 + below(120)
    return f"{below(10**9):09}" * (length // 9 + 1)


def command():
    key = below(3000)
    return [
        lambda: ["SET", f"session:{key}", value()],
        lambda: ["SET", f"cache:{key}", value(), "EX", "3600"],
        lambda: ["APPEND", f"log:{key % 200}", value()],
        lambda: ["INCR", f"counter:{key}"],
        lambda: ["HSET", f"user:{key}", f"field{below(30)}", value(), "name", str(key)],
        lambda: ["HGETALL", f"user:{key}"],
        lambda: ["LPUSH", f"queue:{key % 100}", value(), value()],
        lambda: ["RPOP", f"queue:{key % 100}"],
        lambda: ["SADD", f"tags:{key % 20}", *(f"tag{below(2000)}" for _ in range(4))],
        lambda: ["SINTERCARD", "2", f"tags:{key % 20}", f"tags:{below(20)}"],
        lambda: ["ZADD", "scores", str(below(100000)), f"player:{key}"],
        lambda: ["ZREVRANGE", "scores", "0", "20", "WITHSCORES"],
        lambda: ["GET", f"session:{key}"],
        lambda: ["UNLINK", f"tags:{key}"],
        lambda: ["DEL", f"session:{below(3000)}", f"cache:{below(3000)}", f"user:{below(3000)}"],
    ][below(15)]()


for _ in range(15000):
    words = command()
    sys.stdout.write(f"*{len(words)}\r\n")
    sys.stdout.writelines(f"${len(word)}\r\n{word}\r\n" for word in words)
