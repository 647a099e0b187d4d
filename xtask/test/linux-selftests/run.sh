# Runs each program in the file `list` beside this script, and says what it printed and its exit code.
cd "${0%/*}" || exit 9
while IFS=: read -r collection program; do
	echo "# begin $collection:$program"
	(cd "$collection" && exec timeout 300 "./$program" </dev/null 2>&1)
	code=$?
	# Its last line may have no end.
	echo
	echo "# end $code"
done <list
