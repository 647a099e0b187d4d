# Debian's busybox, as a shell and as a hundred small programs: on the host's Linux, and on Linux as a program.
cd "$TMP"

echo "=== arithmetic and words"
i=0; sum=0
while [ $i -lt 500 ]; do i=$((i + 1)); sum=$((sum + i * i)); done
echo $sum $((sum % 97)) "${i#5}"
set -- a "b c" d; echo $# "$2"; shift; echo "$*"

echo "=== processes"
n=0
while [ $n -lt 40 ]; do n=$((n + 1)); v=$(echo $n); [ "$v" = $n ] || echo wrong; done
echo $n
(exit 7); echo $?
false || echo "or"
sh -c 'kill -TERM $$'; echo $?
sh -c 'sleep 100 & kill $!; wait $!; echo $?'

echo "=== pipes"
seq 1 3000 | sort -rn | head -1000 | awk '{ s += $1 } END { print s, NR }'
seq 1 20000 | tee first | md5sum; wc -c < first
yes | head -100000 | wc -l
mkfifo fifo; (seq 1 100 > fifo) & wc -l < fifo; wait

echo "=== signals"
trap 'echo caught USR1' USR1; kill -USR1 $$; trap - USR1
sh -c 'trap "echo bye" EXIT; exit 3'; echo $?
(while :; do :; done) & loop=$!
sleep 0.2; kill -STOP $loop; kill -CONT $loop; kill $loop; wait $loop; echo $?

echo "=== files"
mkdir -p a/b/c; echo one > a/one; echo two > a/b/two; ln -s ../one a/b/link; ln a/one a/hard
cat a/b/link; ls -R a; find a -type f | sort; stat -c '%a %s %h' a/one
cp -r a z; diff -r a z && echo same; rm -r z; mv a/b/two a/two; ls a
dd if=/dev/zero of=large bs=64k count=160 2> dd.txt; md5sum < large
truncate -s 100 large; wc -c < large
chmod 400 a/two; stat -c %a a/two
echo append >> a/one; tail -n 1 a/hard

echo "=== archives"
seq 1 5000 > numbers; tar cf all.tar numbers a; tar tf all.tar | sort
gzip -c numbers > numbers.gz; zcat numbers.gz | cmp - numbers && echo same
bzip2 -c numbers | bunzip2 | md5sum
xz -d -c < /dev/null 2> errors; sha256sum numbers; base64 numbers | md5sum

echo "=== text"
sed -n 's/^\(.\)9\(.\)$/\2-\1/p' numbers | tr '\n' ' '; echo
grep -c 7 numbers; cut -c1-2 numbers | sort | uniq -c | sort -k1,1nr -k2,2n | head -5
echo hello | tr a-y b-z; printf '%05d|%-6s|%x\n' 42 abc 255; od -An -tx1 -c < first | head -2
awk 'BEGIN { x = 1; for (i = 0; i < 60; i++) x *= 1.5; printf "%.6e\n", x; print substr("processor", 4) }'
echo '1+2*3' | bc

echo "=== time"
before=$(date +%s); sleep 1; after=$(date +%s); d=$((after - before)); [ $d -ge 1 ] && echo "a second or more"
timeout 1 sleep 10; echo $?
date -u -d @1000000000
