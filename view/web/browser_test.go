//go:build browser

package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/gofrs/flock"

	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// patience is how long a page may take to come to what is waited for, on a busy machine.
const patience = 60 * time.Second

// browser opens a tab of a headless Chromium. Where there is none the test says so and is over.
func browser(t *testing.T) context.Context {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Log("no Chromium on this machine")
		return nil
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(patience))...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as the context that starts it
		t.Logf("%s does not start on this machine: %v", program, err)
		return nil
	}
	return ctx
}

// do runs actions in a tab, within the patience.
func do(t *testing.T, ctx context.Context, what string, actions ...chromedp.Action) {
	t.Helper()
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// until waits for a condition of the page, an expression of its script.
func until(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	// a tab behind another draws nothing, and its script is not asked at each picture
	do(t, ctx, "wait for "+expression, chromedp.Poll(expression, nil,
		chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(patience)))
}

// awaited waits for a promise.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// TestLiveInBrowser sees tasks change, and presses the buttons.
func TestLiveInBrowser(t *testing.T) {
	ctx := browser(t)
	if ctx == nil {
		return
	}
	p := newProject(t, 12)
	do(t, ctx, "open the printed address", chromedp.Navigate(p.http.URL+p.server.Path()))
	until(t, ctx, `!location.hash && document.querySelector('a[href="/loops/loop-1234"]')`)
	do(t, ctx, "open the loop", chromedp.Navigate(p.http.URL+"/loops/loop-1234"))
	until(t, ctx, `document.querySelector('#t0.s-ready') && document.querySelectorAll('#edges path').length === 10`)
	p.attempt("1", journal.Verified, "")
	until(t, ctx, `document.querySelector('#t0.s-done') && document.querySelector('#head').textContent.includes('1 of 12') && document.querySelector('.lanes rect.s-done')`)
	for _, b := range []struct{ text, want string }{{"Resume", "loop resume --name loop-1234 --detach"},
		{"Step", "loop resume --name loop-1234 --step --detach"}} {
		do(t, ctx, b.text, chromedp.Click(`//button[.="`+b.text+`"]`, chromedp.BySearch))
		until(t, ctx, fmt.Sprintf(`document.querySelector('#did code')?.textContent === %q`, "descartes "+b.want))
	}
	const retry = `[...document.querySelectorAll('.buttons button')].some(b => b.checkVisibility() && b.textContent === 'Retry blocked')`
	until(t, ctx, `!`+retry)                      // nothing is blocked
	lock := flock.New(p.home.Default() + ".lock") // now somebody runs it
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	p.append(&journal.Event{Type: journal.WaveStarted, Unit: journal.Unit{Wave: 2}})
	until(t, ctx, `document.querySelector('#head.live')`)
	for _, b := range []struct{ text, want string }{{"Pause", "loop pause loop-1234"},
		{"Cancel", "loop cancel loop-1234"}} {
		do(t, ctx, b.text, chromedp.Click(`//button[.="`+b.text+`"]`, chromedp.BySearch))
		until(t, ctx, fmt.Sprintf(`document.querySelector('#did code')?.textContent === %q`, "descartes "+b.want))
	}
	p.append(&journal.Event{Type: journal.TaskStarted, Unit: journal.Unit{Task: "3", Wave: 2}},
		&journal.Event{Type: journal.AttemptStarted, Unit: journal.Unit{Task: "3", Wave: 2, Attempt: 1, Of: 3}})
	for _, r := range []struct {
		ask            store.Request
		before, button string
	}{{store.RequestPause, "Pause", "Undo pause"}, {store.RequestCancel, "Cancel", "Undo cancel"}} {
		if err := p.home.Ask(atomicfile.OS(), "loop-1234", r.ask, false); err != nil {
			t.Fatal(err)
		}
		until(t, ctx, fmt.Sprintf(
			`document.querySelector('#head .warning')?.textContent === '%s requested: the run stops when its running attempt is finished'`, r.ask))
		until(t, ctx, fmt.Sprintf(
			`[...document.querySelectorAll('.buttons button')].every(b => b.checkVisibility() || b.textContent !== %q) && ![...document.querySelectorAll('.buttons button')].some(b => b.checkVisibility() && b.textContent === %q)`, r.button, r.before))
		do(t, ctx, r.button, chromedp.Click(`//button[.="`+r.button+`"]`, chromedp.BySearch))
		until(t, ctx, fmt.Sprintf(
			`document.querySelector('#did code')?.textContent === 'descartes loop %s loop-1234 --undo'`, r.ask))
		if err := p.home.ClearRequest("loop-1234"); err != nil { // as that command does
			t.Fatal(err)
		}
		until(t, ctx, `!document.querySelector('#head .warning')`)
	}
	p.append(&journal.Event{Type: journal.LoopStopping})
	until(t, ctx, `document.querySelector('#head .warning')?.textContent === 'interrupted: the run stops when its running attempt is finished' && ![...document.querySelectorAll('.buttons button')].some(b => b.checkVisibility() && b.textContent.startsWith('Undo'))`)
	p.append(&journal.Event{Type: journal.AttemptFinished, Unit: journal.Unit{Task: "3", Wave: 2, Attempt: 1},
		Verdict: journal.Limited, Reason: "5-hour limit"}, &journal.Event{Type: journal.LimitWaiting,
		Unit: journal.Unit{Task: "3"}, Reason: "5-hour limit"})
	until(t, ctx, `document.querySelector('.lanes g[aria-label^="this folder: waited for the provider: 5-hour limit"] rect.gap[fill="url(#wait-provider)"]') && document.querySelector('#lanes .legend').textContent.includes('waits for the provider')`)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, `document.querySelector('#head:not(.live)')`)
	p.append(&journal.Event{Type: journal.TaskStarted, Unit: journal.Unit{Task: "2", Wave: 2}},
		&journal.Event{Type: journal.AttemptStarted, Unit: journal.Unit{Task: "2", Wave: 2, Attempt: 1, Of: 3}},
		&journal.Event{Type: journal.AttemptFinished, Unit: journal.Unit{Task: "2", Wave: 2, Attempt: 1},
			Verdict: journal.Blocked, Reason: "it asks"},
		&journal.Event{Type: journal.TaskBlocked, Unit: journal.Unit{Task: "2", Wave: 2, Title: "Task 2"},
			Verdict: journal.Blocked, Reason: "it asks", Detail: &journal.Detail{
				Speech: journal.Speech{Question: "Tabs or spaces?"}}})
	until(t, ctx, `document.querySelector('#stuck q')?.textContent === 'Tabs or spaces?'`)
	until(t, ctx, retry)
	do(t, ctx, "retry", chromedp.Click(`//button[.="Retry blocked"]`, chromedp.BySearch))
	until(t, ctx, `document.querySelector('#did code')?.textContent === 'descartes loop resume --name loop-1234 --retry-blocked --detach'`)
	do(t, ctx, "answer", chromedp.Click("#stuck a"), chromedp.WaitVisible("#answer"),
		chromedp.SendKeys("#answer", "Tabs"), chromedp.Click("form button"))
	until(t, ctx, `document.querySelector('#did code')?.textContent === 'descartes answer --tag x -- 2 -'`)
	if p.stdin != "Tabs" {
		t.Errorf("the answer: %q", p.stdin)
	}
}

// TestLogInBrowser follows a log that grows.
func TestLogInBrowser(t *testing.T) {
	ctx := browser(t)
	if ctx == nil {
		return
	}
	p := newProject(t, 2)
	p.attempt("1", journal.Failed, "no")
	f, err := os.Create(p.home.Log("loop-1234", "1", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, "first", evil)
	do(t, ctx, "open the task", chromedp.Navigate(p.http.URL+p.server.Path()),
		chromedp.Navigate(p.http.URL+"/loops/loop-1234/tasks/1"))
	until(t, ctx, `document.querySelector('#log .lines')?.textContent.includes('first <script>') && !document.querySelector('#log script')`)
	do(t, ctx, "open the diff", chromedp.Click(`//summary[.="Diff"]`, chromedp.BySearch))
	until(t, ctx, `document.querySelector('.diff .added')?.textContent.includes('<script>')`)
}

// TestKeyInBrowser: links and reloads work, a tab without the key says what to do, and a page on another port of this
// machine, such as a preview that an agent serves, gets neither the key nor anything of the page from a browser that
// has it.
func TestKeyInBrowser(t *testing.T) {
	ctx := browser(t)
	if ctx == nil {
		return
	}
	p := newProject(t, 2)
	p.attempt("1", journal.Verified, "")
	var mu sync.Mutex
	var sent []string
	preview := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, fmt.Sprint(r.URL, r.Header))
		fmt.Fprintf(w, `<!doctype html><title>preview</title><iframe src="%[1]s/loops/loop-1234"></iframe>`,
			p.http.URL)
	}))
	t.Cleanup(preview.Close)
	const open = "open the address that descartes serve has printed"
	const says = `document.querySelector('#trouble')?.textContent.startsWith('` + open + `')`
	do(t, ctx, "open a bookmark", chromedp.Navigate(p.http.URL+"/loops/loop-1234"))
	until(t, ctx, says)
	do(t, ctx, "type the printed address into that tab", chromedp.Navigate(p.http.URL+p.server.Path()))
	until(t, ctx, `!location.hash && document.querySelector('a[href="/loops/loop-1234"]')`)
	do(t, ctx, "follow links", chromedp.Click(`a[href="/loops/loop-1234"]`), chromedp.WaitVisible("#t0"),
		chromedp.Reload(), chromedp.WaitVisible("#t0"), chromedp.Click("#t0"), chromedp.WaitVisible(".attempt"))
	until(t, ctx, `location.pathname === '/loops/loop-1234/tasks/1' && document.title.startsWith('1 ')`)
	do(t, ctx, "open the preview in the same tab", chromedp.Navigate(preview.URL), chromedp.WaitReady("iframe"))
	var got string
	do(t, ctx, "have the preview ask", chromedp.Evaluate(fmt.Sprintf(`Promise.all(['cors', 'no-cors'].flatMap(mode => [{}, {'Descartes-Key': 'x'}].map(headers =>
		fetch(%q, {mode, headers, credentials: 'include'}).then(a => a.text(), () => '')))).then(all => all.join('') + document.cookie + JSON.stringify(sessionStorage))`, p.http.URL+"/loops/loop-1234"), &got, awaited))
	if got != "{}" {
		t.Errorf("the preview reads %s", got)
	}
	do(t, ctx, "go back to the page", chromedp.Navigate(p.http.URL+"/loops/loop-1234"), chromedp.WaitVisible("#t0"))
	mu.Lock()
	if all := strings.Join(sent, "\n"); len(sent) == 0 || strings.Contains(all, p.server.key) ||
		strings.Contains(all, "Cookie") {
		t.Errorf("the preview was sent %s", all)
	}
	mu.Unlock()
	tab, stop := chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Run(tab); err != nil { // it lives as long as this context, too
		t.Fatal(err)
	}
	do(t, tab, "open another tab", chromedp.Navigate(p.http.URL+"/loops/loop-1234"))
	until(t, tab, says+` && !document.querySelector('.card')`)
	do(t, tab, "type the address of that page with the key",
		chromedp.Navigate(p.http.URL+"/loops/loop-1234"+p.server.Path()[1:]), chromedp.WaitVisible("#t0"))
	p.server.key = "another" // as a server that was started anew at the same port has
	do(t, tab, "reload", chromedp.Reload())
	until(t, tab, says)
}

// TestAccess finds nothing serious wrong for those who cannot see the page or use a mouse, light and dark, wide and
// narrow.
func TestAccess(t *testing.T) {
	ctx := browser(t)
	if ctx == nil {
		return
	}
	axe, err := os.ReadFile(filepath.Join("testdata", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	p := newProject(t, 12)
	p.attempt("1", journal.Verified, "")
	p.attempt("2", journal.Failed, "no")
	p.append(&journal.Event{Type: journal.TaskBlocked, Unit: journal.Unit{Task: "2", Wave: 1, Title: "Task 2"},
		Verdict: journal.Failed, Reason: "no"})
	p.append(&journal.Event{Type: journal.LoopPaused, Reason: string(journal.Paused)})
	p.append(&journal.Event{Type: journal.LoopResumed})
	p.attempt("11", journal.Failed, "no") // what waited for a person is drawn
	do(t, ctx, "take the key", chromedp.Navigate(p.http.URL+p.server.Path()))
	for _, path := range []string{"/", "/loops/loop-1234", "/loops/loop-1234/tasks/2"} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{360, 1280} {
				var found string
				do(t, ctx, path, emulation.SetEmulatedMedia().WithFeatures(
					[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
					chromedp.EmulateViewport(width, 900), chromedp.Navigate(p.http.URL+path),
					chromedp.WaitVisible("header.bar"), chromedp.Evaluate(string(axe), nil),
					chromedp.Evaluate(`axe.run().then(r => JSON.stringify(r.violations.filter(v => v.impact === 'serious' || v.impact === 'critical').map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' '))))`, &found, awaited))
				var list []string
				if err := json.Unmarshal([]byte(found), &list); err != nil {
					t.Fatalf("%s: %q: %v", path, found, err)
				}
				if len(list) > 0 {
					t.Errorf("%s, %s, %d wide:\n%s", path, scheme, width, strings.Join(list, "\n"))
				}
				var wide bool
				do(t, ctx, path, chromedp.Evaluate(
					`document.documentElement.scrollWidth > document.documentElement.clientWidth`, &wide))
				if wide {
					t.Errorf("%s is wider than a window of %d", path, width)
				}
			}
		}
	}
}

// TestManyTasks shows ten thousand and says how long that took, which a test cannot hold anybody to.
func TestManyTasks(t *testing.T) {
	ctx := browser(t)
	if ctx == nil {
		return
	}
	p := newProject(t, 10_000)
	var paint, scripting float64
	do(t, ctx, "open", chromedp.Navigate(p.http.URL+p.server.Path()), chromedp.Navigate(p.http.URL+"/loops/loop-1234"),
		chromedp.Poll(`document.querySelectorAll('.card').length === 10000 && performance.getEntriesByName('first-contentful-paint').length`, nil, chromedp.WithPollingTimeout(patience)),
		chromedp.Evaluate(`performance.getEntriesByName('first-contentful-paint')[0].startTime`, &paint),
		chromedp.Evaluate(`document.addEventListener('htmx:oobBeforeSwap', () => window.began ??= performance.now()); document.addEventListener('htmx:oobAfterSwap', () => window.took = performance.now() - window.began)`, nil))
	p.attempt("1", journal.Verified, "")
	until(t, ctx, `document.querySelector('#t0.s-done')`)
	until(t, ctx, `window.took`)
	do(t, ctx, "measure", chromedp.Evaluate(`window.took`, &scripting))
	t.Logf("10,000 tasks: first paint after %.0f ms, an update takes %.1f ms of scripting", paint, scripting)
}

// TestScreenshots takes the pictures of the README, of a loop's page that make screenshots serves. Without one there
// is nothing to take.
func TestScreenshots(t *testing.T) {
	address, dir := os.Getenv("SCREENSHOTS_OF"), os.Getenv("SCREENSHOTS_IN")
	if address == "" {
		return
	}
	ctx := browser(t)
	if ctx == nil {
		return
	}
	do(t, ctx, "take the key", chromedp.EmulateViewport(1180, 900), chromedp.Navigate(address))
	do(t, ctx, "open the loop", chromedp.Click("tbody th a"), chromedp.WaitVisible(".board"))
	until(t, ctx, `document.querySelectorAll('#edges path').length > 0`)
	for _, scheme := range []string{"light", "dark"} {
		var picture []byte
		do(t, ctx, scheme, emulation.SetEmulatedMedia().WithFeatures(
			[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
			chromedp.FullScreenshot(&picture, 100))
		if err := os.WriteFile(filepath.Join(dir, "board-"+scheme+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
