-- Input for sqlite3: a small ledger, built, indexed, joined, grouped, changed and deleted from.
-- Rows come from a linear congruential generator in a recursive query, so the input is this file.
PRAGMA journal_mode = OFF;
CREATE TABLE account (id INTEGER PRIMARY KEY, name TEXT, branch INTEGER, opened TEXT);
CREATE TABLE entry (id INTEGER PRIMARY KEY, account INTEGER, day INTEGER, amount REAL, memo TEXT);

INSERT INTO account
WITH RECURSIVE r(n, x) AS (
  SELECT 1, 1984 UNION ALL
  SELECT n + 1, (x * 1103515245 + 12345) % 2147483648 FROM r WHERE n < 1000)
SELECT n, 'customer ' || hex(x), x / 65536 % 17,
  date('1970-01-01', '+' || (x / 4096 % 9000) || ' days')
FROM r;

INSERT INTO entry
WITH RECURSIVE r(n, x) AS (
  SELECT 1, 1977 UNION ALL
  SELECT n + 1, (x * 1103515245 + 12345) % 2147483648 FROM r WHERE n < 20000)
SELECT n, 1 + x / 65536 % 1000, x / 2048 % 365, (x / 512 % 200000 - 100000) / 100.0,
  CASE x / 8192 % 4
    WHEN 0 THEN 'rent' WHEN 1 THEN 'wages ' || x WHEN 2 THEN printf('ref %08x', x) END
FROM r;

CREATE INDEX entry_account ON entry (account, day);
CREATE INDEX entry_memo ON entry (memo) WHERE memo IS NOT NULL;
ANALYZE;

SELECT branch, count(*), round(sum(amount), 2), min(day), max(day),
  group_concat(DISTINCT substr(memo, 1, 4))
FROM entry JOIN account ON account.id = entry.account GROUP BY branch ORDER BY branch;

SELECT name, round(total(amount), 2) AS balance
FROM account LEFT JOIN entry ON entry.account = account.id
GROUP BY account.id HAVING balance > 2000 ORDER BY balance DESC, name LIMIT 40;

SELECT account, day, amount, round(sum(amount) OVER (PARTITION BY account ORDER BY day, id), 2)
FROM entry WHERE account IN (SELECT id FROM account WHERE name LIKE '%7A%' ORDER BY id LIMIT 30)
ORDER BY account, day, id;

SELECT upper(substr(memo, 1, 6)) AS kind, count(*), round(avg(amount), 3),
  json_group_array(json_object('id', id, 'amount', amount)) FILTER (WHERE abs(amount) > 995)
FROM entry WHERE memo IS NOT NULL GROUP BY kind HAVING count(*) > 40 ORDER BY kind;

UPDATE entry SET memo = replace(coalesce(memo, 'none'), 'ref', 'reference') || ' ' || day
WHERE day % 3 = 0;
DELETE FROM entry WHERE account % 5 = 2 AND amount < 0;
CREATE TABLE summary AS
  SELECT account, day / 30 AS month, count(*) AS n, sum(amount) AS total
  FROM entry GROUP BY account, month;
SELECT month, sum(n), round(sum(total), 2) FROM summary GROUP BY month ORDER BY month;
SELECT count(DISTINCT memo), sum(length(memo)) FROM entry;
PRAGMA integrity_check;
