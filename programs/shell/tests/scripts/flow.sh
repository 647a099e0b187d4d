# Lists, loops, functions, case, errors.
true && echo and || echo no
false && echo no || echo or
! true || echo not; ! false && echo not
if false; then echo no; elif true; then echo elif; else echo no; fi
for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done
for i in a b; do for j in 1 2; do [ $j = 2 ] && continue 2; echo $i$j; done; done
i=0; while [ $i -lt 10 ]; do i=$((i+1)); [ $i -eq 3 ] && break; done; echo $i
until [ $i -eq 0 ]; do i=$((i-1)); done; echo $i
for ((n=0; n<3; n++)); do printf '%s ' $n; done; echo
case hello in h?llo) echo one;; *) echo two;; esac
case x in a|b) echo no;; "x") echo quoted;; esac
case '*' in \*) echo star;; esac
case abc in [!a]*) echo no;; [a-c]*) echo set;; esac
f() { echo "f $1 $# $@"; local v=inner; g; return 3; }
g() { echo "v is $v"; }
v=outer; f a b; echo "$? $v"
(v=sub; echo $v; exit 4); echo "$? $v"
{ echo group; }; echo $?
fact() { if [ $1 -le 1 ]; then echo 1; else echo $(( $1 * $(fact $(($1 - 1))) )); fi; }; fact 10
[ -n "" ]; echo $?; [ -z "" ] && echo empty; [ a != b ] && [ 3 -gt 2 ] && echo ok; test 1 -eq 1 -a a = a && echo both
[[ abc == a* && ! x == y ]] && echo pattern
(set -e; false; echo no); echo "e $?"
(set -e; if false; then :; fi; false || true; ! true; echo yes); echo "e $?"
(set -u; echo $missing_variable) 2>/dev/null; echo "u $?"
(set -e; f() { false; echo in; }; f && echo done)
x=1 eval 'echo $x'; echo "[$x]"
readonly r=1; (r=2) 2>/dev/null; echo "readonly $?"
trap 'echo bye' EXIT
nosuchprogram 2>/dev/null; echo $?
. /nosuchfile 2>/dev/null; echo $?
unset v; echo "${v-unset}"
export E=exported; echo $E
type cd | head -n 1
command -v echo
$(exit 5); echo $?
y=$(exit 6); echo $?
false; echo $?; echo $?
while read -r a b; do echo "$b-$a"; done <<END
1 2 3
x y
END
IFS=, read p q r2 <<< "a,b,c,d"; echo "$p|$q|$r2"
echo "tail"; false | true; echo $?; set -o pipefail; false | true; echo $?
exit 7
