# Turnover by town and year, best customers, and articles by tag: group_by, map, sort_by, regular
# expressions, string building, as in everyday use.
def turnover: map(.items[] | .count * .price) | add;

{
  by_town: (group_by(.customer.town)
    | map({
        town: .[0].customer.town,
        orders: length,
        years: (group_by(.date[0:4]) | map({key: .[0].date[0:4], value: turnover}) | from_entries)
      })),
  best_customers: (group_by(.customer.name)
    | map({name: .[0].customer.name, total: turnover, orders: map(.id)})
    | sort_by(-.total) | .[0:25]),
  by_tag: (map(.items[] | {article, count, tag: .tags[]})
    | group_by(.tag)
    | map({key: .[0].tag, value: (map(.article) | unique)}) | from_entries),
  notes: (map(select(.note != null and (.note | test("violin.*map")))
    | "\(.id): \(.note | ascii_upcase | split(" ") | join(", "))"))
}
