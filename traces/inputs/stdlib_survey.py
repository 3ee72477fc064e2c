"""Run by python3: a survey of the interpreter's own standard library.

Parses the modules named below with ast, counts names, calls and docstring words with re and dicts,
writes the result as JSON and reads it back: the everyday mix of small objects, dicts and strings.
"""
import ast
import collections
import json
import os
import re
import sys

MODULES = ["argparse", "json/decoder"]

library = os.path.dirname(os.__file__)
words = collections.Counter()
survey = {}
for module in MODULES:
    with open(os.path.join(library, module + ".py"), encoding="utf-8") as file:
        source = file.read()
    tree = ast.parse(source)
    functions, calls = {}, collections.Counter()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            text = ast.get_docstring(node) or ""
            words.update(word.lower() for word in re.findall(r"[A-Za-z]{3,}", text))
            functions.setdefault(node.name, []).append(node.lineno)
        elif isinstance(node, ast.Call):
            calls[ast.unparse(node.func)] += 1
    lines = [len(line) for line in source.splitlines()]
    survey[module] = {
        "functions": functions,
        "calls": dict(calls.most_common(30)),
        "longest": max(lines),
        "mean": sum(lines) / len(lines),
    }
survey["words"] = words.most_common(50)
text = json.dumps(survey, indent=1, sort_keys=True)
assert json.loads(text)["words"][0][0] == survey["words"][0][0]
sys.stdout.write(text + "\n")
