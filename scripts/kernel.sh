#!/bin/sh
# Fetches a Debian release's Linux kernel, for tests in a virtual machine.
#   scripts/kernel.sh DIR bullseye|bookworm|...
# Prints the path of the kernel. The first run needs apt-get and the network.
set -eu
mkdir -p "$1/$2"
dir=$(cd "$1/$2" && pwd)
if [ ! -e "$dir/vmlinuz" ]; then
	# Separate package lists, with the machine's keys.
	mkdir -p "$dir/lists/partial" "$dir/cache"
	echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${DEBIAN_MIRROR:-http://deb.debian.org/debian} $2 main" >"$dir/sources.list"
	apt="-qq -o Dir::Etc::SourceList=$dir/sources.list -o Dir::Etc::SourceParts=- -o Dir::State::Lists=$dir/lists -o Dir::Cache=$dir/cache -o APT::Architecture=amd64 -o APT::Sandbox::User=root"
	# shellcheck disable=SC2086 # a list of options
	(
		cd "$dir"
		apt-get $apt update
		# This package has no files. It depends on the package with the kernel, directly or through another one.
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
