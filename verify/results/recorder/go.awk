# go.awk prints what go test prints, from what go test -json prints. Packages begin in the order in which go test
# reports them, and run at once: a package's report waits for those of the packages before it.

function field(name, i, s) {
	i = index($0, "\"" name "\":\"")
	if (!i) return ""
	s = substr($0, i + length(name) + 4)
	match(s, /^([^"\\]|\\.)*/)
	return text(substr(s, 1, RLENGTH))
}

function text(s, out, i, c) {
	out = ""
	while ((i = index(s, "\\")) > 0) {
		out = out substr(s, 1, i - 1)
		c = substr(s, i + 1, 1)
		if (c == "u") {
			out = out letter(substr(s, i + 2, 4))
			s = substr(s, i + 6)
			continue
		}
		out = out (c == "n" ? "\n" : c == "t" ? "\t" : c == "r" ? "\r" : c == "b" ? "\b" : c == "f" ? "\f" : c)
		s = substr(s, i + 2)
	}
	return out s
}

# letter is one of a UTF-16 code unit, as UTF-8.
function letter(hex, n, i) {
	n = 0
	for (i = 1; i <= 4; i++) n = n * 16 + index("0123456789abcdef", tolower(substr(hex, i, 1))) - 1
	if (n < 128) return sprintf("%c", n)
	if (n < 2048) return sprintf("%c%c", 192 + int(n / 64), 128 + n % 64)
	return sprintf("%c%c%c", 224 + int(n / 4096), 128 + int(n / 64) % 64, 128 + n % 64)
}

# ended puts the report of a test that failed where it belongs: into the one around it, or its package.
function ended(pkg, test, report, above) {
	report = head[pkg, test] body[pkg, test] below[pkg, test]
	if (test ~ /\//) gsub(/[^\n]+\n/, "    &", report)
	if (match(test, /\/[^\/]*$/)) {
		above = substr(test, 1, RSTART - 1)
		below[pkg, above] = below[pkg, above] report
	} else whole[pkg] = whole[pkg] report
}

# report prints what a package says of itself: all if it failed.
function report(pkg, n, i, lines) {
	n = split(whole[pkg], lines, "\n")
	for (i = 1; i <= n; i++)
		if ((ended_with[pkg] == "fail" || lines[i] ~ /^(ok|\?|---) |^(ok|\?)[ \t]|\[no test files\]|^\t.*coverage: /) && (i < n || lines[i] != "")) print lines[i]
	delete whole[pkg]
}

!/^\{"/ { print; next }

{
	action = field("Action"); pkg = field("Package"); test = field("Test")
}

pkg != "" && !(pkg in known) { known[pkg] = 1; order[++begun] = pkg }

action == "build-output" { printf "%s", field("Output") > "/dev/stderr"; next }

action == "output" {
	s = field("Output")
	if (verbose) { printf "%s", s; next }
	if (test == "") whole[pkg] = whole[pkg] s
	else if (s ~ /^=== (RUN|PAUSE|CONT|NAME) /) ;
	else if (s ~ /^ *--- (FAIL|PASS|SKIP): /) head[pkg, test] = s
	else body[pkg, test] = body[pkg, test] s
	next
}

action == "fail" && test != "" { ended(pkg, test) }

(action == "pass" || action == "fail" || action == "skip") && test != "" {
	delete head[pkg, test]; delete body[pkg, test]; delete below[pkg, test]
	next
}

action == "fail" { failed = 1 }

(action == "pass" || action == "fail" || action == "skip") && !verbose {
	ended_with[pkg] = action
	while (reported < begun && order[reported + 1] in ended_with) report(order[++reported])
	fflush()
}

END {
	while (!verbose && reported < begun)
		if (order[++reported] in ended_with) report(order[reported])
		else printf "%s", whole[order[reported]]
	if (failed) print "FAIL"
}
