# Quotes, parameters, fields, braces, patterns.
show() { printf '%d:' $#; for word; do printf '[%s]' "$word"; done; echo; }
a='two words' empty=
show $a "$a" '$a' $empty "$empty" $nothing "" '' a"b"'c'
show "a\"b\$c\\d" a\ b \* "x
y"
show ${a} ${#a} ${nothing:-default} ${empty:-default} ${empty-default} ${a:+other} "${nothing-a b}" ${nothing-a b}
: ${assigned:=value}; show $assigned
path=/usr/lib/file.tar.gz
show ${path##*/} ${path#*/} ${path%.*} ${path%%.*} ${path/lib/LIB} ${path//\//-} ${path:5:3} ${path: -2}
word=hello; show ${word^} ${word^^} ${word/l/L} ${word//l/L} ${word/#he/HE} ${word/%lo/LO}
set -- 'a b' c ''
show $@; show "$@"; show $*; show "$*"; show "x$@y"; show "${@}" $#
set --; show "$@"; show "$*"; show x"$@"
IFS=:; v=a:b::c; show $v; show "$v"; unset IFS
show a{1,2}b {1..4} {a..c} {x,{y,z}} '{1,2}' {1} 
show $((1 + 2 * 3)) $(( (1+2)*3 )) $((7/2)) $((-7%3)) $((1<<4)) $((5>3 && 2<1)) $((x=5, x+1)) $x $((x++)) $x $((x>3?10:20))
show $(echo one two) "$(echo one two)" `echo back` "$(printf 'a\n\n\n')"
x=~+/x; show ${x#"$PWD"}
HOME=/home/me; show ~ ~/x "~" a~
show $'a\tb' $'\x41'
show "nested $(echo "inner $(echo "deep")")"
b=name; name=value; show ${!b}
show a=b "x"=y
