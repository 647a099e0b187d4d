# Programs of a Debian root: in it on the host's Linux, and with it as the root of Linux as a program. bash runs this.
set -u
cd "$TMP"
section() { echo "=== $1"; }

section "bash"
declare -A number=([one]=1 [two]=2 [three]=3)
for name in "${!number[@]}"; do echo "$name ${number[$name]}"; done | sort
coproc CAT { cat; }
echo "through a coprocess" >&"${CAT[1]}"
read -r line <&"${CAT[0]}"
echo "$line"
exec {CAT[1]}>&-
wait
diff <(seq 5) <(seq 2 6)
trap 'echo "got USR1"' USR1
kill -USR1 $$
trap - USR1
(exit 3) | true
echo "${PIPESTATUS[@]}"

section "coreutils"
seq 1000 | shuf --random-source=<(yes) | sort -n | sha256sum
seq 100 | split -l 30 - part. && wc -l part.* && cat part.* | tac | head -n 3
truncate -s 1M sparse && stat -c '%s %a' sparse && cp --sparse=always sparse copy && cmp sparse copy && echo equal
timeout 0.2 sleep 5
echo "code $?"
mkfifo pipe && { echo "through a fifo" >pipe & cat pipe; }
ln -s target link && readlink link && stat -c '%F' link pipe

section "dpkg"
dpkg --audit && echo consistent
dpkg-query -W -f '${Package} ${Status}\n' bash coreutils perl

section "perl"
perl -e 'use POSIX; my %h = map { $_ => $_ ** 2 } 1 .. 10; print join(",", map { "$_=$h{$_}" } sort { $a <=> $b } keys %h), "\n";
pipe(my $r, my $w); if (!fork) { close $r; print $w "from the child\n"; exit 4 } close $w; print <$r>; wait; print $? >> 8, "\n";
local $SIG{ALRM} = sub { print "alarm\n" }; alarm 1; select(undef, undef, undef, 3); print sprintf("%.10f", atan2(1, 1) * 4), "\n";'

section "python3"
python3 - <<'END'
import ctypes, hashlib, math, mmap, multiprocessing, os, queue, signal, socket, subprocess, sys, tempfile, threading
print(sum(i * i for i in range(100000)), math.fsum([0.1] * 10), hashlib.sha256(b"x" * 100000).hexdigest())
work, done = queue.Queue(), []
def thread():
    while (n := work.get()) is not None:
        done.append(n * n)
threads = [threading.Thread(target=thread) for _ in range(8)]
for t in threads: t.start()
for n in range(1000): work.put(n)
for _ in threads: work.put(None)
for t in threads: t.join()
print(len(done), sum(done))
print(subprocess.run(["sort", "-r"], input=b"1\n2\n3\n", capture_output=True).stdout)
print([subprocess.call(["sh", "-c", f"exit {n}"]) for n in range(5)])
print(subprocess.run(["sh", "-c", "kill -SEGV $$"]).returncode)
with multiprocessing.Pool(3) as pool: print(pool.map(abs, range(-10, 0)))
with tempfile.TemporaryFile() as f:
    f.truncate(1 << 20)
    shared = mmap.mmap(f.fileno(), 1 << 20)
    if os.fork() == 0:
        shared[1000:1005] = b"child"
        os._exit(0)
    os.wait()
    print(shared[1000:1005], os.pread(f.fileno(), 5, 1000))
a, b = socket.socketpair()
a.sendall(b"socket"); print(b.recv(10))
server = socket.create_server(("127.0.0.1", 0))
def serve():
    c, _ = server.accept()
    c.sendall(c.recv(100)[::-1]); c.close()
t = threading.Thread(target=serve); t.start()
client = socket.create_connection(server.getsockname()); client.sendall(b"loopback"); print(client.recv(100)); t.join()
got = []
signal.signal(signal.SIGALRM, lambda *_: got.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
while len(got) < 5: signal.pause()
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(got) >= 5, ctypes.CDLL(None).abs(-5))
r, w = os.pipe()
if (child := os.posix_spawn("/bin/echo", ["echo", "spawned"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, w, 1)])): os.waitpid(child, 0)
print(os.read(r, 100))
END

section "a C program, compiled and run"
cat >c.c <<'END'
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static sigjmp_buf back;
static char *where;
static void fault(int signal, siginfo_t *info, void *context) { where = info->si_addr; siglongjmp(back, signal); }
static int depth(int n) { volatile char room[4096]; room[0] = n; return depth(n + 1) + room[0]; }
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static void *add(void *one) { for (int i = 0; i < 20000; i++) { pthread_mutex_lock(&lock); sum += *(long *)one; pthread_mutex_unlock(&lock); } return 0; }
int main(void)
{
	static char stack[65536];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	sigaltstack(&alternate, 0);
	sigaction(SIGSEGV, &action, 0);
	sigaction(SIGFPE, &action, 0);
	char *page = mmap((void *)0x10000000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	int signal = sigsetjmp(back, 1);
	if (!signal)
		*page = 1;
	printf("signal %d at %p\n", signal, where);
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	*page = 42;
	printf("%d\n", *page);
	if (!(signal = sigsetjmp(back, 1)))
		depth(0);
	printf("stack overflow: signal %d\n", signal);
	pthread_t threads[4];
	long ones[4] = { 1, 2, 3, 4 };
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, add, &ones[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	printf("%ld %.12f\n", sum, sqrt(2) + sin(1));
	int status;
	if (!vfork())
		_exit(9);
	wait(&status);
	printf("vfork: %d\n", WEXITSTATUS(status));
	return 5;
}
END
tcc -pthread -o c c.c -lm && ./c
echo "code $?"

section "strace"
strace -f -e trace=execve,write,exit_group -o trace sh -c 'echo traced; /bin/echo again'
echo "code $?"
grep -c 'execve(' trace
grep -o 'write(1, "[a-z]*' trace
strace -c -o counts true && grep -c 'execve' counts

section "gdb"
cat >debugged.c <<'END'
static int twice(int n)
{
	int result = n * 2;
	return result;
}
int main(void)
{
	int total = 0;
	for (int i = 1; i <= 3; i++)
		total += twice(i);
	return total;
}
END
tcc -g -o debugged debugged.c
gdb -nx -q -batch -ex 'break twice' -ex run -ex 'print n' -ex next -ex 'print result' -ex backtrace -ex 'stepi' \
	-ex continue -ex 'print n' -ex 'set var n = 100' -ex 'delete' -ex continue debugged 2>&1 |
	grep -v 'warning\|libthread_db\|^$' | sed 's/process [0-9]*/process N/; s/0x[0-9a-f]*/0x/g'

section "luajit"
luajit -e 'local s = 0 for i = 1, 3000000 do s = (s + i * 7) % 1000003 end print(s)
local ffi = require("ffi") ffi.cdef("int abs(int);") print(ffi.C.abs(-3)) local t = {} for i = 1, 100000 do t[i] = i * 1.5 end print(#t, t[77777])'

section "a Go program"
printf 'import {b} from "./b"; console.log(b(2) ** 3);\n' >a.js
printf 'export function b(n) { return n + 1 } export const unused = 4;\n' >b.js
esbuild a.js --bundle --minify --log-level=error

section "a static Rust program"
/host/rust 2000 || echo "code $?"

section "proc"
cat /proc/self/comm /proc/$$/comm
tr '\0' ' ' </proc/self/cmdline; echo
ls -d /proc/self/fd /proc/self/task/* | wc -l
grep -c 'r-xp' /proc/self/maps | grep -qv '^0$' && echo "maps"
awk '/^(VmRSS|Threads)/ { print $1 }' /proc/self/status
ps -o comm= -p $$

section "sys"
ls -d /sys/kernel /sys/block /sys/class/net/lo
cat /sys/class/net/lo/mtu
