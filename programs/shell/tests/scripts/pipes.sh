# Pipelines, redirections, background; needs a directory to write to: $1.
cd "$1" || exit 9
echo one two three | { read a b; echo "$b,$a"; }
printf '%s\n' c a b | sort | head -n 2 | tr a-z A-Z
echo hello > file; cat file; echo more >> file; cat < file; wc -l < file
echo error 2>/dev/null 1>&2; echo visible
{ echo out; echo err >&2; } > both 2>&1; sort both
{ echo out; echo err >&2; } 2> errors > /dev/null; cat errors
ls nosuchfile 2> /dev/null || echo failed
cat nosuchfile &> both; [ -s both ] && echo said
cat <<END
text $((1+1)) "quoted" `echo sub`
END
cat <<'END'
text $((1+1))
END
cat <<-END
	tabs away
	END
cat <<A; cat <<B
first
A
second
B
echo here <<< word; cat <<< "string $((2+3))"
yes | head -n 3
seq 200000 | sort -r -n | head -n 1
seq 100000 | cat | cat | tail -n 1
seq 30000 > big; wc -l < big; cat big big | wc -l
(echo a; echo b) | while read x; do echo "<$x>"; done
n=$(seq 1000 | wc -l); echo $((n))
exec 3> third; echo to three >&3; exec 3>&-; cat third
for i in 1 2 3; do echo $i; done > loop; cat loop
f() { cat; }; echo through | f
sleep 0.1 & wait $!; echo "waited $?"
(exit 5) & wait $!; echo "waited $?"
{ sleep 0.2; echo late > late; } & echo early; wait; cat late
for i in 1 2 3 4; do (sleep 0.1; echo $i >> many) & done; wait; sort many
touch x.a y.a 'z w.b'; echo *.a; echo *; echo [xy].?; echo nothing*; printf '[%s]' *.b; echo
mkdir -p d/e; touch d/e/f; echo d/*/f; echo */; cp x.a copy; mv copy moved; rm x.a; ls *.a moved
cd d; basename "$(pwd)"; cd - > /dev/null; cd ..; cd "$1"
echo 'echo "script $0 $# $2"; exit 3' > script; sh script a b; echo $?
printf '#!/bin/sh\necho "run $1"\n' > run; chmod +x run 2>/dev/null; ./run arg
echo text > notaprogram; ./notaprogram 2>/dev/null; echo $?
mkdir dir; ./dir 2>/dev/null; echo $?
tee a.out b.out <<< teed > /dev/null; cat a.out b.out
rm -r d dir; ls d 2>/dev/null || echo gone
