#!/bin/sh
# Installs hookonce @VERSION@: fetches the program of this system, verifies the signature and the checksum, and only then
# installs it. HOOKONCE_INTO is the folder to install into, /usr/local/bin by default; HOOKONCE_FROM is where the files of
# the release are, an address or file://FOLDER.
set -eu

version=@VERSION@
key=@KEY@
into=${HOOKONCE_INTO:-/usr/local/bin}
from=${HOOKONCE_FROM:-https://github.com/hookonce/hookonce/releases/download/$version}

fail() {
	echo "Error: $1" >&2
	echo "Try: $2" >&2
	exit 1
}

# The last line calls this: a script that is cut off on its way does nothing.
main() {
	for tool in curl minisign tar; do
		command -v "$tool" >/dev/null || fail "$tool is missing; without it nothing can be verified" "install $tool"
	done
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "there is no program for $(uname -s) here" "take the archive of the release" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no program for $(uname -m)" "go install github.com/hookonce/hookonce/cmd/hookonce@$version" ;;
	esac
	name=hookonce_${version#v}_${os}_$arch
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT

	for file in SHA256SUMS SHA256SUMS.minisig "$name.tar.gz"; do
		curl -fsSL --proto '=https,file' -o "$folder/$file" "$from/$file" || fail "cannot fetch $from/$file" "look whether the release has it"
	done
	# The signed comment names the version.
	comment=$(minisign -V -Q -P "$key" -m "$folder/SHA256SUMS") ||
		fail "the checksums are not signed by the key of hookonce" "do not use these files; report it"
	[ "$comment" = "hookonce $version" ] || fail "the checksums are those of \"$comment\", not of hookonce $version" "fetch install.sh again"
	sum=$(sed -n "s/^\([0-9a-f]*\)  $name\.tar\.gz\$/\1/p" "$folder/SHA256SUMS")
	if command -v sha256sum >/dev/null; then
		seen=$(sha256sum "$folder/$name.tar.gz")
	else
		seen=$(shasum -a 256 "$folder/$name.tar.gz")
	fi
	[ -n "$sum" ] && [ "$sum" = "${seen%% *}" ] || fail "$name.tar.gz is not the signed file" "fetch it again; if that does not help, report it"

	tar -xzf "$folder/$name.tar.gz" -C "$folder" "$name/hookonce"
	# The new file takes the place of the old one at once, also while that runs.
	mkdir -p "$into" && cp "$folder/$name/hookonce" "$into/.hookonce.new" && chmod 0755 "$into/.hookonce.new" &&
		mv -f "$into/.hookonce.new" "$into/hookonce" || fail "cannot write into $into" "run this as root, or set HOOKONCE_INTO"
	echo "hookonce $version is in $into"
}

main
