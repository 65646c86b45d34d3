package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"descartes/internal/proc"
	"descartes/internal/terminal"
	"descartes/view"
)

// target is one way to reach a person.
type target struct {
	name string // for messages: nothing of it is secret
	send func(ctx context.Context, n *view.Notice) error
	patience
}

// patience is how long a try may take, and the end of a run.
type patience struct {
	most time.Duration
	late string // what is wrong with a target that takes longer
}

func answers() patience { return patience{5 * time.Second, "it did not answer within"} }
func ends() patience    { return patience{15 * time.Second, "it did not end within"} }

// gone is why a try was given up.
func (p *patience) gone(of string) error {
	return fmt.Errorf("%s %s%s", p.late, terminal.Spell(p.most), of)
}

// parse reads a target as a person writes it. A URL may contain variables of env as $NAME or ${NAME}, so that no
// secret has to be written down.
func parse(text string, opt *Options) (target, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case strings.TrimSpace(text) == "":
		return target{}, errors.New("--notify is empty: give a command, a URL, desktop or bell")
	case text == "bell":
		return target{"bell", func(context.Context, *view.Notice) error { opt.Bell(); return nil }, ends()}, nil
	case text == "desktop":
		return target{"desktop", desktop, ends()}, nil
	case kind == "ntfy" || kind == "slack" || kind == "discord" || kind == "telegram" || kind == "http" ||
		kind == "https":
		missing := ""
		full := os.Expand(text, func(name string) string {
			v, ok := opt.lookup(name)
			if !ok {
				missing = name
			}
			return v
		})
		if missing != "" {
			return target{}, fmt.Errorf("--notify %s: the variable %s is not set", text, missing)
		}
		_, rest, _ = strings.Cut(full, ":")
		return webhook(kind, full, rest)
	}
	return target{"command", opt.command(text), ends()}, nil
}

// webhook is a target that is called by HTTP.
func webhook(kind, full, rest string) (target, error) {
	form := plain
	address := rest
	switch kind {
	case "http", "https":
		kind, address = "webhook", full
		if u, err := url.Parse(full); err == nil {
			switch {
			case u.Host == "hooks.slack.com":
				kind, form = "slack", slack
			case (u.Host == "discord.com" || u.Host == "discordapp.com") &&
				strings.HasPrefix(u.Path, "/api/webhooks/"):
				kind, form = "discord", discord
			case u.Host == "ntfy.sh":
				kind, form = "ntfy", ntfy
			}
		}
	case "slack":
		form = slack
	case "discord":
		form = discord
	case "ntfy":
		form = ntfy
		if rest = strings.TrimPrefix(rest, "//"); !strings.Contains(rest, "/") {
			rest = "ntfy.sh/" + rest
		}
		if address = rest; !strings.HasPrefix(rest, "http://") && !strings.HasPrefix(rest, "https://") {
			address = "https://" + rest
		}
	case "telegram":
		at := strings.LastIndexByte(rest, '@')
		if at < 1 || at == len(rest)-1 {
			return target{}, errors.New(
				"--notify telegram: write telegram:TOKEN@CHAT, as in 'telegram:$TELEGRAM_TOKEN@12345'")
		}
		form = telegram(rest[at+1:])
		address = "https://api.telegram.org/bot" + rest[:at] + "/sendMessage"
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return target{}, fmt.Errorf("--notify %s: not a URL that can be called", kind) // the URL may hold a secret
	}
	user := u.User
	u.User = nil
	return target{strings.TrimSpace(kind + " " + u.Host), func(ctx context.Context, n *view.Notice) error {
		return post(ctx, u, user, form(n))
	}, answers()}, nil
}

// message is the body of a call, and its headers.
type message struct {
	body   []byte
	header map[string]string
}

func asJSON(v any) message {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own values
	}
	return message{b, map[string]string{"Content-Type": "application/json"}}
}

func plain(n *view.Notice) message { return asJSON(n) }

func slack(n *view.Notice) message {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	return asJSON(map[string]string{"text": "*" + escape(n.Heading) + "*\n" + escape(n.Message)})
}

func discord(n *view.Notice) message {
	return asJSON(map[string]any{"content": cut("**"+n.Heading+"**\n"+n.Message, 1900),
		"allowed_mentions": map[string]any{"parse": []string{}}})
}

func telegram(chat string) func(*view.Notice) message {
	return func(n *view.Notice) message {
		return asJSON(map[string]string{"chat_id": chat, "text": cut(n.Heading+"\n"+n.Message, 4000)})
	}
}

func ntfy(n *view.Notice) message {
	priority := "default"
	if n.Event != "finished" {
		priority = "high"
	}
	title := strings.Map(func(r rune) rune { // of a header
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, n.Heading)
	return message{[]byte(cut(n.Message, 3900)), map[string]string{"Title": title, "Priority": priority,
		"Tags": n.Event}}
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// finalError is of a call that is not tried again.
type finalError struct{ error }

// post calls a webhook. Its errors do not contain the URL.
func post(ctx context.Context, u *url.URL, user *url.Userinfo, m message) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(m.body))
	if err != nil {
		return finalError{errors.New("the URL cannot be called")}
	}
	for name, value := range m.header {
		req.Header.Set(name, value)
	}
	if user != nil {
		if password, ok := user.Password(); ok {
			req.SetBasicAuth(user.Username(), password)
		} else {
			req.Header.Set("Authorization", "Bearer "+user.Username())
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return errors.New(fault(err, u))
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	switch {
	case res.StatusCode < 300:
		return nil
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests:
		return errors.New(res.Status)
	}
	return finalError{errors.New(res.Status)}
}

// fault says why a URL did not answer, naming nothing of it but its host.
func fault(err error, u *url.URL) string {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	text := err.Error()
	for _, part := range append(strings.Split(u.Path, "/"), u.RawQuery) {
		if len(part) > 3 && strings.Contains(text, part) {
			return "the call failed"
		}
	}
	return text
}

// command runs a command of the shell with the notice on its standard input.
func (o *Options) command(line string) func(context.Context, *view.Notice) error {
	argv := []string{"sh", "-c", line}
	if runtime.GOOS == "windows" {
		argv = []string{"cmd", "/c", line}
	}
	return func(ctx context.Context, n *view.Notice) error {
		body := append(asJSON(n).body, '\n')
		if o.Confine == nil {
			return run(ctx, argv, nil, body)
		}
		inside, env, done, err := o.Confine(line)
		switch {
		case err != nil:
			return err
		case inside == nil:
			return run(ctx, argv, nil, body)
		}
		defer done()
		return run(ctx, inside, env, body)
	}
}

// desktop shows a notice by the desktop's own program.
func desktop(ctx context.Context, n *view.Notice) error {
	return run(ctx, desktopCommand(runtime.GOOS, n), nil, nil)
}

// desktopCommand hands a notice over as arguments: nothing of it is script.
func desktopCommand(system string, n *view.Notice) []string {
	if system == "darwin" {
		return []string{"osascript", "-e", "on run argv", "-e",
			"display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", n.Heading, n.Message}
	}
	return []string{"notify-send", "--app-name=descartes", "--", n.Heading, n.Message}
}

func run(ctx context.Context, argv, env []string, stdin []byte) error {
	r, err := proc.Output(ctx, proc.Call{Argv: argv, Env: env, Stdin: stdin, Limit: 1 << 20})
	switch {
	case errors.Is(err, proc.ErrNoProgram):
		return finalError{err}
	case err != nil:
		return err
	case r.Code != 0:
		first, _, _ := strings.Cut(strings.TrimSpace(string(r.Stderr)), "\n")
		return fmt.Errorf("exit status %d %s", r.Code, terminal.Fit(terminal.Clean(first), 120))
	}
	return nil
}
