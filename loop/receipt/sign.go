package receipt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/proc"
)

// payloadType says what an envelope holds.
const payloadType = "application/vnd.in-toto+json"

// Envelope is a statement with signatures, as DSSE has it.
type Envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"`
	Signatures  []Signature `json:"signatures"`
}

// Signature is an armoured signature of ssh-keygen or gpg.
type Signature struct {
	KeyID string `json:"keyid,omitempty"`
	Sig   []byte `json:"sig"`
}

// toSign is what is signed of a payload, by DSSE's rules: nobody can take it for something else.
func toSign(payload []byte) []byte {
	return append(fmt.Appendf(nil, "DSSEv1 %d %s %d ", len(payloadType), payloadType, len(payload)), payload...)
}

// namespace is what a signature of ssh-keygen is for.
const namespace = "descartes-receipt"

// patience bounds a run of a program that signs: one that asks for a passphrase waits for nobody.
const patience = time.Minute

// Key is the user's signing key, as git's configuration has it.
type Key struct {
	Format  string // openpgp or ssh
	ID      string // a path, a literal "key::ssh-ed25519 AAAA", or the id of a gpg key
	Program string // "" is ssh-keygen or gpg
}

// quietly keeps ssh-keygen and gpg from asking on a terminal.
func quietly() []string {
	return append(os.Environ(), "SSH_ASKPASS=false", "SSH_ASKPASS_REQUIRE=force", "LC_ALL=C")
}

func call(ctx context.Context, dir string, stdin []byte, argv ...string) (proc.Reply, error) {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	return proc.Output(ctx, proc.Call{Argv: argv, Dir: dir, Env: quietly(), Stdin: stdin})
}

// Sign puts a statement into an envelope with the signature of a key.
func (k *Key) Sign(ctx context.Context, payload []byte) (line []byte, err error) {
	dir, err := os.MkdirTemp("", "descartes-sign-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	argv, err := k.command(dir)
	if err != nil {
		return nil, err
	}
	r, err := call(ctx, dir, toSign(payload), argv...)
	if err == nil && (r.Code != 0 || len(r.Stdout) == 0) {
		err = fmt.Errorf("%s: %s", filepath.Base(argv[0]), firstLine(r.Stderr, "no signature"))
	}
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return encode(Envelope{PayloadType: payloadType, Payload: payload,
		Signatures: []Signature{{KeyID: k.Format, Sig: r.Stdout}}})
}

// command signs standard input.
func (k *Key) command(dir string) ([]string, error) {
	program := k.Program
	switch k.Format {
	case "", "openpgp":
		if program == "" {
			program = "gpg"
		}
		argv := []string{program, "--batch", "--no-tty", "--detach-sign", "--armor"}
		if k.ID != "" {
			argv = append(argv, "--local-user", k.ID)
		}
		return argv, nil
	case "ssh":
		if program == "" {
			program = "ssh-keygen"
		}
		if k.ID == "" {
			return nil, errors.New("sign: git config user.signingkey names no key")
		}
		argv := []string{program, "-Y", "sign", "-n", namespace}
		literal, ok := strings.CutPrefix(k.ID, "key::")
		if !ok && !strings.HasPrefix(k.ID, "ssh-") {
			return append(argv, "-f", k.ID), nil
		}
		file := filepath.Join(dir, "key.pub") // its other half is in the agent
		return append(argv, "-f", file, "-U"), os.WriteFile(file, []byte(literal+"\n"), 0o600)
	}
	return nil, fmt.Errorf("sign: gpg.format %s is not supported: it may be ssh or openpgp", k.Format)
}

func firstLine(text []byte, otherwise string) string {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return otherwise
}

// Signers are the keys whose signatures count: the lines of an allowed_signers file of ssh, and for gpg lines with a
// name, the word openpgp and the fingerprint of a key that gpg knows.
type Signers struct {
	ssh []string
	gpg map[string]string // fingerprint to name
}

// ReadSigners reads such a file.
func ReadSigners(text []byte) (*Signers, error) {
	s := &Signers{gpg: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0][0] == '#':
		case len(f) >= 3 && f[1] == "openpgp":
			print := strings.ToUpper(strings.Join(f[2:], ""))
			if len(print) < 40 || strings.Trim(print, "0123456789ABCDEF") != "" {
				return nil, fmt.Errorf("%q is not the fingerprint of a gpg key: gpg --fingerprint shows its 40 digits",
					strings.Join(f[2:], " "))
			}
			s.gpg[print] = f[0]
		case len(f) >= 3:
			s.ssh = append(s.ssh, strings.TrimRight(line, "\n"))
		default:
			return nil, fmt.Errorf("%q is not a line of an allowed_signers file: a name, a kind of key, and the key",
				strings.TrimSpace(line))
		}
	}
	return s, nil
}

// Nobody signed whose signature counts.
var (
	errNotSigned  = errors.New("it is not signed")
	errNotAllowed = errors.New("it is not signed by an allowed signer")
)

// Verify is who signed a statement, or an error: errNotSigned or errNotAllowed where nobody did whose signature
// counts.
func (s *Signers) Verify(ctx context.Context, l Line) (who string, err error) {
	if l.Envelope == nil {
		return "", errNotSigned
	}
	dir, err := os.MkdirTemp("", "descartes-verify-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if len(l.Envelope.Signatures) == 0 {
		return "", errNotSigned
	}
	for _, sig := range l.Envelope.Signatures {
		file := filepath.Join(dir, "sig")
		if err := os.WriteFile(file, sig.Sig, 0o600); err != nil {
			return "", err
		}
		who, err := "", error(nil)
		if strings.HasPrefix(string(sig.Sig), "-----BEGIN SSH SIGNATURE-----") {
			who, err = s.bySSH(ctx, dir, file, toSign(l.Payload))
		} else {
			who, err = s.byGPG(ctx, dir, file, toSign(l.Payload))
		}
		if err != nil || who != "" {
			return who, err
		}
	}
	return "", errNotAllowed
}

func (s *Signers) bySSH(ctx context.Context, dir, sig string, signed []byte) (string, error) {
	if len(s.ssh) == 0 {
		return "", nil
	}
	allowed := filepath.Join(dir, "allowed")
	if err := os.WriteFile(allowed, []byte(strings.Join(s.ssh, "\n")+"\n"), 0o600); err != nil {
		return "", err
	}
	r, err := call(ctx, dir, nil, "ssh-keygen", "-Y", "find-principals", "-s", sig, "-f", allowed)
	if err != nil || r.Code != 0 {
		return "", err
	}
	for name := range strings.Lines(string(r.Stdout)) {
		name = strings.TrimSpace(name)
		r, err := call(ctx, dir, signed, "ssh-keygen", "-Y", "verify", "-f", allowed, "-I", name, "-n", namespace,
			"-s", sig)
		if err != nil {
			return "", err
		}
		if r.Code == 0 {
			return name, nil
		}
	}
	return "", nil
}

func (s *Signers) byGPG(ctx context.Context, dir, sig string, signed []byte) (string, error) {
	if len(s.gpg) == 0 {
		return "", nil
	}
	r, err := call(ctx, dir, signed, "gpg", "--batch", "--no-tty", "--status-fd", "1", "--verify", sig, "-")
	if err != nil || r.Code != 0 {
		return "", err
	}
	for line := range strings.Lines(string(r.Stdout)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "[GNUPG:]" || f[1] != "VALIDSIG" {
			continue
		}
		for print, name := range s.gpg { // of the key itself, or of the one that it is a part of
			if slices.Contains(f[2:], print) {
				return name, nil
			}
		}
	}
	return "", nil
}

// SignedBy is who signed all of a claim, "" where nobody did whose signature counts: then its problems say so.
func (c *Claim) SignedBy(ctx context.Context, s *Signers) (string, error) {
	by := ""
	for _, l := range c.Lines {
		who, err := s.Verify(ctx, l)
		if errors.Is(err, errNotSigned) || errors.Is(err, errNotAllowed) || err == nil && by != "" && who != by {
			if err == nil {
				err = errors.New("two people signed it")
			}
			c.wrong("%v", err)
			return "", nil
		}
		if err != nil {
			return "", err
		}
		by = who
	}
	return by, nil
}
