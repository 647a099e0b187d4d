.headers on
SELECT sqlite_version() = sqlite_version() AS there;
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, born REAL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers, amount NUMERIC, note TEXT, placed TEXT);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
    INSERT INTO customers SELECT i, 'customer ' || i, char(65 + i * 7 % 26) || '-town', 1940 + i * 31 % 70 + 0.25 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
    INSERT INTO orders SELECT i, 1 + i * 7919 % 1000, (i * 104729 % 100000) / 100.0, printf('note %06x for %s', i * 2654435761 & 0xffffff, char(0x3b1 + i % 24)),
        date('2020-01-01', '+' || (i % 1500) || ' days') FROM n;
COMMIT;
CREATE INDEX by_customer ON orders (customer, placed);
CREATE UNIQUE INDEX by_name ON customers (name COLLATE NOCASE);
CREATE INDEX expensive ON orders (amount) WHERE amount > 900;
SELECT count(*), min(amount), max(amount), round(avg(amount), 6), total(amount) FROM orders;
SELECT c.city, count(*) AS orders, round(sum(o.amount), 2) AS sum FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.city ORDER BY sum DESC LIMIT 10;
SELECT c.name, o.placed, o.amount FROM customers c JOIN orders o ON o.customer = c.id WHERE c.name = 'CUSTOMER 77' COLLATE NOCASE ORDER BY o.placed, o.id LIMIT 5;
SELECT strftime('%Y-%m', placed) AS month, count(*), round(sum(amount), 1) FROM orders GROUP BY month ORDER BY month LIMIT 12;
SELECT id, amount, rank() OVER (ORDER BY amount DESC, id) AS place, round(sum(amount) OVER (ORDER BY id ROWS 2 PRECEDING), 2) AS moving FROM orders WHERE customer = 5 ORDER BY place LIMIT 8;
EXPLAIN QUERY PLAN SELECT * FROM orders WHERE customer = 3 AND placed > '2021-01-01';
EXPLAIN QUERY PLAN SELECT * FROM orders WHERE amount > 950;
SELECT note, upper(note), instr(note, 'for'), replace(note, 'note', 'n'), length(note), hex(substr(note, -1)) FROM orders WHERE id IN (1, 50000, 100000);
SELECT json_group_array(json_object('id', id, 'city', city)) FROM (SELECT * FROM customers LIMIT 3);
SELECT value, key FROM json_each('{"a": [1, 2.5, null], "b": "x"}');
SELECT 1e15, 1e16, 0.1 + 0.2, 1.0 / 3, 9007199254740993, -0.0, 1e-10, 1e308 * 10, printf('%.15g %e %5.1f|%-8s|%08d|%,d', 2.5, 12345.678, 3.14159, 'ab', 42, 1234567);
SELECT round(2.5), round(-1.235, 2), abs(-3), sqrt(2), pow(2, 0.5), exp(1), ln(10), log2(8), sin(1), cos(1), tan(1), atan2(1, 2), pi(), mod(7.5, 2), ceil(1.2), floor(-1.2);
SELECT date('2024-02-29', '+1 year'), datetime(1700000000, 'unixepoch'), julianday('2000-01-01'), strftime('%j %W %s', '2024-12-31'), time('12:34:56', '+90 minutes');
CREATE TABLE words (word TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO words SELECT DISTINCT substr(note, 6, 4) FROM orders ORDER BY 1 LIMIT 500;
SELECT count(*), min(word), max(word) FROM words;
CREATE TRIGGER log_change AFTER UPDATE OF amount ON orders BEGIN UPDATE customers SET born = born + 1 WHERE id = new.customer; END;
UPDATE orders SET amount = amount + 1 WHERE id % 1000 = 0;
SELECT changes(), total(born) FROM customers;
CREATE VIEW best AS SELECT customer, sum(amount) AS sum FROM orders GROUP BY customer HAVING sum > 51000;
SELECT count(*), round(max(sum), 2) FROM best;
WITH RECURSIVE fib(n, a, b) AS (VALUES (1, 0, 1) UNION ALL SELECT n + 1, b, a + b FROM fib WHERE n < 20) SELECT group_concat(a, ' ') FROM fib;
ANALYZE;
SELECT * FROM sqlite_stat1 ORDER BY tbl, idx;
PRAGMA integrity_check;
PRAGMA foreign_key_check;
