# go.awk prints what go test prints, from what go test -json prints.

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

!/^\{"/ { print; next }

{
	action = field("Action"); pkg = field("Package"); test = field("Test")
}

action == "build-output" { printf "%s", field("Output") > "/dev/stderr"; next }

action == "output" {
	s = field("Output")
	if (verbose) { printf "%s", s; next }
	if (test == "") whole[pkg] = whole[pkg] s
	else if (s ~ /^=== (RUN|PAUSE|CONT|NAME) /) ;
	else if (s ~ /^ *--- (FAIL|PASS|SKIP): /) head[pkg, test] = s
	else body[pkg, test] = body[pkg, test] s
	open[pkg] = 1
	next
}

action == "fail" && test != "" { ended(pkg, test) }

(action == "pass" || action == "fail" || action == "skip") && test != "" {
	delete head[pkg, test]; delete body[pkg, test]; delete below[pkg, test]
	next
}

action == "fail" { failed = 1 }

(action == "pass" || action == "fail" || action == "skip") && !verbose {
	n = split(whole[pkg], lines, "\n")
	for (i = 1; i <= n; i++)
		if ((action == "fail" || lines[i] ~ /^(ok|\?|---) |^(ok|\?)[ \t]|\[no test files\]|^\t.*coverage: /) && (i < n || lines[i] != "")) print lines[i]
	delete whole[pkg]; delete open[pkg]
	fflush()
}

END {
	for (pkg in open) if (!verbose) printf "%s", whole[pkg]
	if (failed) print "FAIL"
}
