# `program.brotli`: compression and decompression.
echo "=== level 1"
brotli -c -1 made/log.txt $TMP/log.br
echo "code $?"
cat $TMP/log.br
echo
brotli $TMP/log.br $TMP/log1.txt
echo "code $?"
cat $TMP/log1.txt
echo "=== level 5"
brotli -c -5 made/log.txt $TMP/log.br
echo "code $?"
cat $TMP/log.br
echo
brotli $TMP/log.br $TMP/log5.txt
echo "code $?"
cat $TMP/log5.txt
echo "=== level 9"
brotli -c -9 made/log.txt $TMP/log.br
echo "code $?"
cat $TMP/log.br
echo
brotli $TMP/log.br $TMP/log9.txt
echo "code $?"
cat $TMP/log9.txt
echo "=== what cannot be made smaller"
brotli -c -5 made/binary.bin $TMP/binary.br
brotli $TMP/binary.br $TMP/binary.bin
echo "code $?"
cat $TMP/binary.bin
echo
echo "=== nothing"
brotli -c made/empty $TMP/empty.br
brotli $TMP/empty.br $TMP/empty
echo "code $?"
echo "=== through pipes"
cat made/people.json | brotli -c -9 | brotli
echo "code $?"
exit 0
