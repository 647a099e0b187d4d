#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Builds Linux with this OS layer: build.sh SOURCE BUILD CONFIG [MAKE-ARGUMENT...]
#
# SOURCE is an unpacked tree of Linux 6.12, which is not changed. BUILD gets the kernel, as BUILD/vmlinux. CONFIG is the
# configuration, a file for `make allnoconfig`. gcc, make, flex, bison and bc must be installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$1" && pwd)
mkdir -p "$2"
build=$(cd "$2" && pwd)
config=$3
shift 3

# A folder with links to everything in the source, and in the places of user-mode Linux' own OS layer links to ours.
farm=$build/farm
rm -rf "$farm"
mkdir -p "$farm/arch/um" "$farm/arch/x86/um"
for part in arch/um/os-Linux arch/um/Makefile-os-Linux arch/x86/um/os-Linux; do
	ln -sn "$here/overlay/$part" "$farm/$part"
done
for folder in arch/x86/um arch/um arch/x86 arch .; do
	for entry in "$source/$folder"/*; do
		link=$farm/$folder/$(basename "$entry")
		[ -e "$link" ] || ln -s "$entry" "$link"
	done
done

# Its options are part of the configuration.
rm "$farm/Kconfig"
{ cat "$source/Kconfig"; echo 'source "arch/um/os-Linux/Kconfig"'; } >"$farm/Kconfig"

make="make -C $farm ARCH=um O=$build"
KCONFIG_ALLCONFIG=$config $make allnoconfig
$make "$@" vmlinux
