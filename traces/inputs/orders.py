"""Input for jq: 2,000 orders of a shop as one JSON array, about 0.8 MB."""
import json
import random
import sys

rng = random.Random(1984)
TOWNS = ["Canberra", "Chicago", "Yorktown Heights", "Ames", "Seoul", "Durham", "Cambridge", "Minsk"]
GOODS = ["lamp", "chair", "book", "teapot", "bicycle", "violin", "kettle", "desk", "clock", "map"]


def below(n):
    return int(rng.random() * n)


def item():
    return {
        "article": GOODS[below(len(GOODS))],
        "count": 1 + below(5),
        "price": (100 + below(20000)) / 100,
        "tags": [f"t{below(40)}" for _ in range(below(4))],
    }


orders = [
    {
        "id": number,
        "customer": {"name": f"customer {below(700)}", "town": TOWNS[below(len(TOWNS))]},
        "date": f"19{70 + below(30)}-{1 + below(12):02}-{1 + below(28):02}",
        "items": [item() for _ in range(1 + below(6))],
        "note": " ".join(GOODS[below(len(GOODS))] for _ in range(below(12))) or None,
    }
    for number in range(2000)
]
json.dump(orders, sys.stdout)
