package gitops

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// TestPushLFS: the objects of the user's files reach his remote, and no server is asked that only the tree names.
func TestPushLFS(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git-lfs"); err != nil {
		t.Skip("there is no git-lfs here")
	}
	for _, tt := range []struct {
		name, setup string
		refused     string // "" where the objects arrive
		asked       bool
	}{
		{name: "the remote alone says where"},
		{name: "the tree", setup: "printf '[lfs]\nurl = URL\n' >.lfsconfig; git add .; git commit -qm x", refused: "lfs.url"},
		{name: "the tree, for pushes", setup: "printf '[lfs]\npushurl = URL\n' >.lfsconfig; git add .; git commit -qm x", refused: "lfs.pushurl"},
		{name: "the tree, of the remote", setup: "printf '[remote \"origin\"]\nlfsurl = URL\n' >.lfsconfig; git add .; git commit -qm x", refused: "remote.origin.lfsurl"},
		{name: "a file of the tree that it includes", setup: "printf '[lfs]\nurl = URL\n' >more; printf '[include]\npath = %s/more\n' $PWD >.lfsconfig; git add .; git commit -qm x", refused: "include.path"},
		{name: "a link", setup: "printf '[lfs]\nurl = URL\n' >more; ln -s more .lfsconfig; git add .; git commit -qm x", refused: "lfs.url"},
		{name: "not committed", setup: "printf '[lfs]\nurl = URL\n' >.lfsconfig", refused: "lfs.url"},
		{name: "not checked out", setup: "printf '[lfs]\nurl = URL\n' >.lfsconfig; git add .; git commit -qm x; rm .lfsconfig", refused: "lfs.url"},
		{name: "changed since it was pushed", setup: "printf '[lfs]\nurl = file://%s/../hub.git\n' $PWD >.lfsconfig; git add .; git commit -qm x; git push -q origin main; printf '[lfs]\nurl = URL\n' >.lfsconfig; git commit -qam y", refused: "lfs.url"},
		{name: "no settings", setup: "echo '[lfs' >.lfsconfig; git add .; git commit -qm x", refused: "cannot be read"},
		{name: "harmless settings", setup: "printf '[lfs]\nfetchexclude = y\n' >.lfsconfig; git add .; git commit -qm x"},
		{name: "the user has named his", setup: "printf '[lfs]\nurl = URL\n' >.lfsconfig; git add .; git commit -qm x; git config lfs.url file://$PWD/../hub.git"},
		{name: "the remote has it so", setup: "printf '[lfs]\nurl = file://%s/../hub.git\n' $PWD >.lfsconfig; git add .lfsconfig; git commit -qm x; git push -q origin main"},
		{name: "he named the server", setup: "git config lfs.url URL", asked: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				http.NotFound(w, nil)
			}))
			defer server.Close()
			s := newBase(t, `git init -q --bare ../hub.git; git remote add origin $PWD/../hub.git; git lfs install --local >/dev/null
echo '*.bin filter=lfs diff=lfs merge=lfs -text' >.gitattributes; git add .; git commit -qm attributes; git push -q origin main`)
			s.sh("echo big >a.bin; git add .; git commit -qm big; " + strings.ReplaceAll(tt.setup, "URL", server.URL+"/lfs"))
			err := s.reopen().Push(t.Context(), "origin", []string{"refs/heads/main"})
			refused, is := errors.AsType[*RefusedError](err)
			if tt.refused == "" != (err == nil || tt.asked) || is && !strings.Contains(refused.Reason, tt.refused) {
				t.Errorf("got %v, want %q", err, tt.refused)
			}
			if got := asked.Load() > 0; got != tt.asked {
				t.Errorf("the server was asked: %v", got)
			}
			if tt.refused == "" && !tt.asked {
				s.sh("test -n \"$(find ../hub.git/lfs/objects -type f)\"; test $(git rev-parse main) = $(git -C ../hub.git rev-parse main)")
			}
		})
	}
}
