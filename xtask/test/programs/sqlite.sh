# `c-program.sqlite`: SQL sessions.
echo "=== 100,000 rows, indices, joins, aggregates"
sqlite3 -batch $TMP/work.db ".read session.sql"
echo "code $?"
echo "=== transactions"
sqlite3 -batch $TMP/work.db ".read transactions.sql"
echo "code $?"
echo "=== another process sees what was committed"
sqlite3 $TMP/work.db 'SELECT count(*), sum(amount), max(note) FROM orders' 'PRAGMA integrity_check' 'PRAGMA journal_mode'
echo "code $?"
echo "=== output in other forms"
sqlite3 $TMP/work.db '.mode csv' '.headers on' 'SELECT * FROM customers LIMIT 3'
echo "code $?"
sqlite3 $TMP/work.db '.mode json' '.headers on' 'SELECT * FROM customers LIMIT 3'
echo "code $?"
sqlite3 $TMP/work.db '.mode column' '.headers on' 'SELECT * FROM customers LIMIT 3'
echo "code $?"
sqlite3 $TMP/work.db '.mode box' '.headers on' 'SELECT * FROM customers LIMIT 3'
echo "code $?"
sqlite3 $TMP/work.db '.mode line' '.headers on' 'SELECT * FROM customers LIMIT 3'
echo "code $?"
sqlite3 $TMP/work.db '.mode html' '.headers on' 'SELECT * FROM customers LIMIT 3'
echo "code $?"
sqlite3 $TMP/work.db '.mode insert' '.headers on' 'SELECT * FROM customers LIMIT 3'
echo "code $?"
sqlite3 $TMP/work.db '.mode quote' '.headers on' 'SELECT * FROM customers LIMIT 3'
echo "code $?"
sqlite3 $TMP/work.db '.mode tabs' '.headers on' 'SELECT * FROM customers LIMIT 3'
echo "code $?"
echo "=== dumped and restored"
sqlite3 $TMP/work.db ".output $TMP/dump.sql" .dump
echo "code $?"
sqlite3 $TMP/copy.db ".read $TMP/dump.sql" 'SELECT count(*), sum(amount) FROM orders' 'PRAGMA integrity_check'
echo "code $?"
sqlite3 $TMP/work.db .sha3sum
echo "code $?"
sqlite3 $TMP/copy.db .sha3sum
echo "code $?"
echo "=== vacuum and what it gives back"
sqlite3 $TMP/work.db 'DELETE FROM orders WHERE id % 3 = 0' 'VACUUM' 'PRAGMA page_count' 'PRAGMA freelist_count' 'PRAGMA integrity_check'
echo "code $?"
echo "=== write-ahead log"
sqlite3 -batch $TMP/wal.db ".read wal.sql"
echo "code $?"
sqlite3 $TMP/wal.db 'SELECT count(*) FROM t' 'PRAGMA journal_mode'
echo "code $?"
echo "=== journal modes"
sqlite3 $TMP/delete.db 'PRAGMA journal_mode = delete' 'CREATE TABLE t (x)' 'BEGIN' 'INSERT INTO t SELECT value FROM generate_series(1, 5000)' 'COMMIT' 'SELECT count(*), sum(x) FROM t' 'PRAGMA integrity_check'
echo "code $?"
sqlite3 $TMP/truncate.db 'PRAGMA journal_mode = truncate' 'CREATE TABLE t (x)' 'BEGIN' 'INSERT INTO t SELECT value FROM generate_series(1, 5000)' 'COMMIT' 'SELECT count(*), sum(x) FROM t' 'PRAGMA integrity_check'
echo "code $?"
sqlite3 $TMP/persist.db 'PRAGMA journal_mode = persist' 'CREATE TABLE t (x)' 'BEGIN' 'INSERT INTO t SELECT value FROM generate_series(1, 5000)' 'COMMIT' 'SELECT count(*), sum(x) FROM t' 'PRAGMA integrity_check'
echo "code $?"
sqlite3 $TMP/memory.db 'PRAGMA journal_mode = memory' 'CREATE TABLE t (x)' 'BEGIN' 'INSERT INTO t SELECT value FROM generate_series(1, 5000)' 'COMMIT' 'SELECT count(*), sum(x) FROM t' 'PRAGMA integrity_check'
echo "code $?"
sqlite3 $TMP/off.db 'PRAGMA journal_mode = off' 'CREATE TABLE t (x)' 'BEGIN' 'INSERT INTO t SELECT value FROM generate_series(1, 5000)' 'COMMIT' 'SELECT count(*), sum(x) FROM t' 'PRAGMA integrity_check'
echo "code $?"
echo "=== backup, attached databases"
sqlite3 $TMP/work.db ".backup $TMP/backup.db" "ATTACH '$TMP/copy.db' AS copy" 'SELECT count(*) FROM orders' 'SELECT count(*) FROM copy.orders' 'SELECT count(*) FROM orders o JOIN copy.orders c ON c.id = o.id'
echo "code $?"
sqlite3 $TMP/backup.db 'PRAGMA integrity_check'
echo "code $?"
echo "=== files in and out"
sqlite3 $TMP/work.db '.mode csv' ".output $TMP/out.csv" 'SELECT * FROM customers ORDER BY id' '.output stdout' ".import $TMP/out.csv imported" 'SELECT count(*) FROM imported'
echo "code $?"
sqlite3 $TMP/work.db "SELECT length(readfile('$TMP/out.csv')), writefile('$TMP/blob', x'00ff10')"
echo "code $?"
echo "=== errors"
sqlite3 $TMP/work.db 'SELECT * FROM missing'
echo "code $?"
sqlite3 $TMP/work.db 'INSERT INTO customers (id) VALUES (1)'
echo "code $?"
sqlite3 :memory: ".output $TMP/text.db" "SELECT printf('%.2000c', 'x')"
echo "code $?"
sqlite3 $TMP/text.db 'SELECT 1 FROM sqlite_schema'
echo "code $?"
sqlite3 -readonly $TMP/work.db 'SELECT count(*) FROM customers' 'DELETE FROM customers'
echo "code $?"
echo "=== a process that dies in a transaction"
sqlite3 $TMP/crash.db 'CREATE TABLE t (x)' 'INSERT INTO t VALUES (1)'
echo "code $?"
sqlite3 $TMP/crash.db 'PRAGMA cache_size = 5' 'BEGIN' 'INSERT INTO t SELECT value FROM generate_series(1, 50000)' 'SELECT count(*) FROM t' '.exit 9'
echo "code $?"
sqlite3 $TMP/crash.db 'SELECT count(*) FROM t' 'PRAGMA integrity_check'
echo "code $?"
exit 0
