# real.sh NAME, sourced: real is the program of that name that stands behind ours, plain the path without ours
plain=
rest=$PATH:
while [ "$rest" ]; do
	one=${rest%%:*}
	rest=${rest#*:}
	[ "$one" = "$d" ] || plain=$plain${plain:+:}$one
done
real=$(PATH=$plain command -v "${0##*/}") || {
	echo "${0##*/}: not found" >&2
	exit 127
}
