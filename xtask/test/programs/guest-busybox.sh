# `vproc.busybox`: a third-party program in sub-domains of a virtual processor.
echo "=== true and false"
guest ./busybox true
echo "code $?"
guest ./busybox false
echo "code $?"
echo "=== echo"
guest ./busybox echo one "two  three" '$four'
echo "code $?"
echo "=== sha256sum"
guest --must=faults ./busybox sha256sum data busybox empty
echo "code $?"
echo "=== sort"
guest ./busybox sort data
echo "code $?"
guest ./busybox sort -rn -k 2 data
echo "code $?"
echo "=== others"
guest ./busybox wc data empty
guest ./busybox sed -n '3,9s/word/WORD/p' data
guest ./busybox awk '{ n += $1 } END { print n / NR, sin(n) }' data
guest ./busybox gzip -c data | cksum
echo "=== a file that is not there"
guest ./busybox sort missing
echo "code $?"
echo "=== a shell with children and pipes"
guest --must=forks,copies,signals ./busybox sh -c 'sort data | head -3; seq 20000 | sort -r | sha256sum; (exit 3) || echo "code $?"; for i in 1 2 3; do echo $i; done | tac'
echo "code $?"
exit 0
