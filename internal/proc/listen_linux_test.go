package proc

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestListening(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	finds := func(in string) bool {
		return slices.ContainsFunc(Listening(in), func(x Listener) bool {
			return x.PID == os.Getpid() && x.Port == port && x.Name != ""
		})
	}
	if finds(dir) {
		t.Error("it does not work in that folder yet")
	}
	t.Chdir(dir)
	if !finds(dir) || !finds(filepath.Dir(dir)) {
		t.Errorf("%d on port %d is not among %v", os.Getpid(), port, Listening(dir))
	}
	if finds(dir[:len(dir)-1]) || finds(filepath.Join(dir, "below")) {
		t.Error("found in another folder")
	}
}
