# `program.b3sum`: checksums, with several threads over files in memory.
echo "=== files"
b3sum made/log.txt made/binary.bin made/empty made/one-line.txt
echo "code $?"
echo "=== longer, raw, keyed"
b3sum --length 100 made/people.json
b3sum --raw made/people.json
echo
b3sum --derive-key "a context" made/people.json
echo "code $?"
echo "=== a file that is not there"
b3sum missing
echo "code $?"
echo "=== by threads and mappings"
b3sum --num-threads 1 made/one-line.txt
b3sum --num-threads 2 made/one-line.txt
b3sum --num-threads 4 made/one-line.txt
b3sum --no-mmap made/one-line.txt
echo "code $?"
echo "=== standard input"
cat made/log.txt | b3sum
echo "code $?"
echo "=== checked"
b3sum made/*.txt > $TMP/sums
b3sum --check $TMP/sums
echo "code $?"
exit 0
