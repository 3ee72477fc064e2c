"""Input for git fast-import: a repository of 600 commits over 40 files.

The files begin as the pages of prose given as arguments; each commit edits, adds and deletes lines
in a few of them. Authors and dates are fixed, so the objects have the same names everywhere.
"""
import random
import sys

COMMITS = 600
AUTHORS = ["Ada <ada@example.org>", "Kurt <kurt@example.org>", "Grace <grace@example.org>"]
rng = random.Random(1984)
out = sys.stdout.buffer


def below(n):
    return int(rng.random() * n)


def data(payload):
    out.write(b"data %d\n%s\n" % (len(payload), payload))


def edit(lines):
    for _ in range(1 + below(6)):
        at = below(len(lines))
        kind = below(3)
        if kind == 0:
            lines[at] = b" ".join(reversed(lines[at].split()))
        elif kind == 1:
            lines[at:at] = lines[below(len(lines))].split(b". ")
        elif len(lines) > 20:
            del lines[at : at + 1 + below(4)]


files = {}
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        files[path.rsplit("/", 1)[1]] = file.read().splitlines()[:1500]
names = sorted(files)

for mark in range(1, COMMITS + 1):
    out.write(b"commit refs/heads/main\nmark :%d\n" % mark)
    author = AUTHORS[below(len(AUTHORS))]
    date = f"{1_000_000_000 + 3600 * mark} +0000"
    out.write(f"author {author} {date}\ncommitter {author} {date}\n".encode())
    touched = names if mark == 1 else [names[below(len(names))] for _ in range(1 + below(5))]
    data(f"Revise {', '.join(sorted(set(touched))[:3])}\n\nRevision {mark}.\n".encode())
    if mark > 1:
        out.write(b"from :%d\n" % (mark - 1))
    for name in sorted(set(touched)):
        if mark > 1:
            edit(files[name])
        out.write(f"M 100644 inline {name}\n".encode())
        data(b"\n".join(files[name]) + b"\n")
