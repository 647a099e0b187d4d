# `program.ripgrep`: searches.
echo "=== a literal, with line numbers"
rg -n --sort path capability text
echo "code $?"
echo "=== a regular expression, case-insensitive, with context"
rg -n -i -C 2 --sort path 'handle(s)? (of|to)' text/docs
echo "code $?"
echo "=== counts by file"
rg -c --sort path 'zx_[a-z_]+' text
echo "code $?"
echo "=== only what matches, with columns"
rg -o --column --sort path -t rust 'fn \w+' text/objects
echo "code $?"
echo "=== captured groups replaced"
rg -N '^.* (ERROR) user=(\S+) code=(5..) .*$' -r '$2: $3 $1' made/log.txt
echo "code $?"
echo "=== many threads over a tree (in any order)"
rg -j 4 -n 'needle|Status' .
echo "code $?"
echo "=== files that would be searched (in any order)"
rg --files .
echo "code $?"
echo "=== hidden and ignored files too"
rg --sort path -uu -n needle made deep
echo "code $?"
echo "=== without a match"
rg 'this stands nowhere at all [0-9]{9}' text
echo "code $?"
echo "=== a pattern that is none"
rg '(' text
echo "code $?"
echo "=== a file that is not there"
rg needle missing.txt
echo "code $?"
echo "=== several lines at once"
rg -U -n --sort path '\{\n\s+bail!' text/objects
rg -U -c 'ERROR.*\n.*ERROR' made/log.txt
echo "code $?"
echo "=== encodings"
rg -n needle made/utf16.txt made/crlf.txt made/unicode.txt --sort path
rg -n -E latin1 'café' made/latin1.txt
rg -i -n 'grösse|δέλτα' made/unicode.txt
echo "code $?"
echo "=== binary files"
rg -c -a '\x00' made/binary.bin
rg needle made/binary.bin
echo "code $?"
echo "=== memory-mapped and not"
rg --mmap -c 'WARN' made/log.txt
rg --no-mmap -c 'WARN' made/log.txt
echo "code $?"
echo "=== the longest line"
rg --no-mmap -o 'x{3}needle' made/one-line.txt
echo "code $?"
echo "=== statistics of names"
rg -l --sort path 'panic!' text
rg --files-without-match --sort path 'the' text/docs
echo "code $?"
echo "=== inverted, words, whole lines, fixed strings"
rg -v -c 'INFO' made/log.txt
rg -w -c 'time' made/log.txt
rg -x 'needle found' made/c.txt
rg -F -c '.0' made/log.txt
echo "code $?"
echo "=== in a pipe"
cat made/log.txt | rg 'code=404' | rg -v 'user=Ada' | rg -c ''
echo "code $?"
echo "=== a reader that goes early"
rg . made/log.txt | head -n 2
echo "code $?"
echo "=== JSON without times"
rg --json -m 2 'ERROR' made/log.txt | rg -v '"type":"(summary|end)"'
echo "code $?"
exit 0
