#!/bin/sh
# Fetches the Linux kernel of a Debian release, for tests in a virtual machine.
#   scripts/kernel.sh DIR bullseye|bookworm|...
# Prints where the kernel is. Needs apt-get and the network, once.
set -eu
mkdir -p "$1/$2"
dir=$(cd "$1/$2" && pwd)
if [ ! -e "$dir/vmlinuz" ]; then
	# Lists of its own, beside those of the machine, and the keys of the machine.
	mkdir -p "$dir/lists/partial" "$dir/cache"
	echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${DEBIAN_MIRROR:-http://deb.debian.org/debian} $2 main" >"$dir/sources.list"
	apt="-qq -o Dir::Etc::SourceList=$dir/sources.list -o Dir::Etc::SourceParts=- -o Dir::State::Lists=$dir/lists -o Dir::Cache=$dir/cache -o APT::Architecture=amd64 -o APT::Sandbox::User=root"
	# shellcheck disable=SC2086 # a list of options
	(
		cd "$dir"
		apt-get $apt update
		# The package of this name has no files and depends on the one that has, of newer kernels by way of another.
		name=linux-image-cloud-amd64
		for kind in image binary; do
			next=$(apt-cache $apt depends "$name" | sed -n "s/.*Depends: \\(linux-$kind-[0-9].*\\)/\\1/p" | head -n 1)
			name=${next:-$name}
		done
		apt-get $apt download "$name"
		dpkg-deb --fsys-tarfile "$name"_*.deb | tar -x --wildcards --transform 's,.*,unpacked,' '*/vmlinuz*'
		rm -rf lists cache sources.list "$name"_*.deb
	) >&2
	mv "$dir/unpacked" "$dir/vmlinuz"
fi
echo "$dir/vmlinuz"
