package sandbox

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Hosts are those of an agent's model provider. A word that begins with *. is
// every host below a domain.
func Hosts(agent string) []string {
	table := map[string][]string{
		"claude":   {"api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"},
		"codex":    {"api.openai.com", "auth.openai.com", "chatgpt.com", "*.openai.azure.com"},
		"gemini":   {"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "*.aiplatform.googleapis.com", "aiplatform.googleapis.com", "accounts.google.com"},
		"qwen":     {"dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "chat.qwen.ai", "portal.qwen.ai"},
		"copilot":  {"api.github.com", "github.com", "*.githubcopilot.com"},
		"opencode": {"opencode.ai", "models.dev", "openrouter.ai", "api.mistral.ai", "api.groq.com", "api.deepseek.com", "api.x.ai"},
	}
	if agent != "opencode" {
		if list, ok := table[agent]; ok {
			return list
		}
	}
	var all []string
	for _, list := range table {
		all = append(all, list...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ValidHost reports whether a word of a setting names hosts: a name, *.name,
// or an address, each with a port behind a colon if need be.
func ValidHost(word string) bool {
	host, port := splitPort(word)
	if port != "" && portNumber(port) == 0 {
		return false
	}
	host = strings.TrimPrefix(host, "*.")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" && !strings.HasPrefix(host, ".")
}

// hostPort parts a host, a name or an address (IPv6 in brackets), from its port.
// standard is for one without; "" if it must have one.
func hostPort(s, standard string) (host, port string, err error) {
	bad := errors.New("the host is neither a name nor an address, each with a port")
	if standard != "" && (!strings.Contains(s, ":") || strings.HasSuffix(s, "]")) {
		s += ":" + standard
	}
	host, port, err = net.SplitHostPort(s)
	if err != nil || len(host) > 255 {
		return "", "", bad
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", "", bad
	}
	if strings.HasPrefix(s, "[") {
		if a, err := netip.ParseAddr(host); err != nil || !a.Is6() || a.Zone() != "" {
			return "", "", bad
		}
		return host, port, nil
	}
	if host == "" || strings.Trim(strings.ToLower(host), hostLetters) != "" || strings.HasPrefix(host, ".") {
		return "", "", bad
	}
	return host, port, nil
}

const hostLetters = "abcdefghijklmnopqrstuvwxyz0123456789.-_"

func portNumber(port string) uint16 {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
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
		return name == host || below && isName && strings.HasPrefix(suffix, ".") && strings.HasSuffix(host, suffix) && len(host) > len(suffix)
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
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, block := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "64:ff9b::/96", "2002::/16", "fec0::/10"} {
		if netip.MustParsePrefix(block).Contains(a) {
			return false
		}
	}
	return true
}
