package sandbox

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ValidHost reports whether a word of a setting names hosts: a name, *.name,
// or an address, each with a port behind a colon if need be.
func ValidHost(word string) bool {
	host, port := splitPort(word)
	host = strings.TrimPrefix(host, "*.")
	_, err := netip.ParseAddr(host)
	return (port == "" || isPort(port)) && (err == nil || isName(host))
}

func isName(host string) bool {
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" &&
		!strings.HasPrefix(host, ".")
}

// isPort is false for what is not as a number is written, too.
func isPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil && port[0] != '0'
}

// hostPort parts a host, a name or an address (IPv6 in brackets), from its port.
func hostPort(s string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(s)
	ok := isName(host)
	if strings.HasPrefix(s, "[") {
		a, wrong := netip.ParseAddr(host)
		ok = wrong == nil && a.Is6() && a.Zone() == ""
	}
	if err != nil || !ok || !isPort(port) {
		return "", "", errors.New("the host is neither a name nor an address, each with a port")
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")), port, nil
}

// allowed reports whether a list holds a host. A word without a port holds
// the ports of the web. Nothing is below a part of an address.
func allowed(list []string, host, port string) bool {
	_, err := netip.ParseAddr(host)
	isName := err != nil
	return slices.ContainsFunc(list, func(word string) bool {
		name, at := splitPort(strings.ToLower(word))
		if at == "" && port != "443" && port != "80" || at != "" && at != port {
			return false
		}
		suffix, below := strings.CutPrefix(name, "*")
		return name == host || below && isName && strings.HasPrefix(suffix, ".") && strings.HasSuffix(host, suffix) &&
			len(host) > len(suffix)
	})
}

// splitPort parts a host from its port, "" where it has none.
func splitPort(s string) (host, port string) {
	if h, p, err := net.SplitHostPort(s); err == nil {
		return h, p
	}
	return strings.Trim(s, "[]"), ""
}

// public reports whether an address is one of the wide network.
func public(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, block := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4",
		"64:ff9b::/96", "2002::/16", "fec0::/10"} {
		if netip.MustParsePrefix(block).Contains(a) {
			return false
		}
	}
	return true
}
