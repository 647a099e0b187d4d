#!/usr/bin/env bash
# Builds Linux' selftests for x86-64, linked statically: build.sh SOURCE BUILD LIBCAP COLLECTION...
#
# SOURCE is an unpacked tree of Linux, which is not changed. LIBCAP is a folder with the content of Debian's libcap-dev.
# BUILD/tests/COLLECTION gets the programs of a collection and what they need, BUILD/list the names of what there is to
# run: COLLECTION:PROGRAM. What does not compile is not there.
set -euo pipefail
source=$(cd "$1" && pwd)
build=$2
libcap=$(cd "$3" && pwd)
shift 3
rm -rf "$build"
mkdir -p "$build/tests" "$build/farm"
build=$(cd "$build" && pwd)

# Some collections write into their folders, so these are copies in which each file is a link.
cp -as "$source/tools" "$build/farm/tools"
for entry in "$source"/*; do
	[ -e "$build/farm/$(basename "$entry")" ] || ln -s "$entry" "$build/farm/"
done

make -s -C "$source" ARCH=x86 O="$build/headers" headers
include="-isystem $build/headers/usr/include -isystem $libcap/usr/include"
library=-L$libcap/usr/lib/x86_64-linux-gnu
for collection in "$@"; do
	folder=$build/tests/$collection
	mkdir -p "$folder"
	# What these two ask for in their flags, a sanitizer, is only for programs that are linked dynamically.
	case $collection in
	fchmodat2 | openat2) flags=("CFLAGS=-O2 $include") ;;
	*) flags=("USERCFLAGS=$include $library") ;;
	esac
	selftests() {
		make -C "$build/farm/tools/testing/selftests/$collection" ARCH=x86 top_srcdir="$build/farm" OUTPUT="$folder" \
			KHDR_INCLUDES="$include" USERLDFLAGS="-static $library" COLLECTION="$collection" "${flags[@]}" "$@"
	}
	selftests -k || true
	selftests -s --no-print-directory emit_tests >>"$build/list"
	# Scripts, and what a collection has built in its own folder.
	find "$build/farm/tools/testing/selftests/$collection" -maxdepth 1 \( -name '*.sh' -o -type f \) \
		-exec cp -Ln {} "$folder" \;
	find "$folder" -type f -name '*.o' -delete
	find "$folder" -type f -perm -u+x -exec strip -g {} \; 2>/dev/null
done
rm -rf "$build/farm"
