# `program.jaq`: JSON queries.
echo "=== as it is"
jaq . made/people.json
echo "code $?"
echo "=== compact, sorted keys"
jaq -c -S . made/lines.ndjson
echo "code $?"
echo "=== selected and built"
jaq -c '.[] | select(.age > 60 and .active) | {name, city: .address.city, n: (.languages | length)}' made/people.json
echo "code $?"
echo "=== grouped"
jaq -c 'group_by(.address.city) | map({city: .[0].address.city, count: length, oldest: max_by(.age).name, mean: (map(.age) | add / length)})' made/people.json
echo "code $?"
echo "=== raw strings"
jaq -r '.[:20][] | "\(.id)\t\(.name)\t\(.height)"' made/people.json
echo "code $?"
echo "=== regular expressions"
jaq -c '[.[] | .name | select(test("^[A-D].* [0-9]{2}$"))]' made/people.json
echo "code $?"
echo "=== numbers"
jaq -c '., map(. * 3), map(floor), (map(. + 0.1) | add)' made/numbers.json
echo "code $?"
echo "=== reduce, recursion, functions"
jaq -c -n 'def fib: if . < 2 then . else (. - 1 | fib) + (. - 2 | fib) end; [range(15) | fib], (reduce range(1000) as $i (0; . + $i)), [recurse(if . < 100 then . * 3 else empty end; . > 0)][0]'
jaq -n -c '[limit(5; repeat(1))]'
echo "code $?"
echo "=== arguments"
jaq -n -c --arg a x --arg b 2 '[$a, $b, ($b | tonumber)]'
echo "code $?"
echo "=== dates and text"
jaq -n -c '(0, 1700000000) | todate'
jaq -n -c '"a,b;c" | split(","), ascii_upcase, explode, @base64, @uri'
echo "code $?"
echo "=== wrong JSON"
jaq . made/broken.json
echo "code $?"
echo "=== a wrong filter"
jaq '.[' made/people.json
echo "code $?"
echo "=== an error of the filter's own"
jaq '.[0] | error("no")' made/people.json
echo "code $?"
echo "=== a file that is not there"
jaq . missing.json
echo "code $?"
echo "=== changed in its place"
jaq -i 'map(. * 2)' $TMP/ids.json
jaq -c '.[:3], length' $TMP/ids.json
echo "code $?"
echo "=== slurped from standard input"
cat made/lines.ndjson | jaq -s -c 'map(.age) | [min, max, add, length]'
echo "code $?"
echo "=== written, read again, changed in its place"
jaq -c 'map(.id)' made/people.json > $TMP/ids.json
jaq -c 'length, add' $TMP/ids.json
jaq -i 'map(. * 2)' $TMP/ids.json
jaq -c '.[:3], length' $TMP/ids.json
echo "code $?"
exit 0
