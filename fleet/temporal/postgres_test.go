//go:build fleet

package temporal

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// With -postgres the server is Temporal's own on PostgreSQL, as a team has it, and not the development server. Its
// programs, server and sql, are those of the module go.temporal.io/server; the folder has them.
var postgres = flag.String("postgres", "", "folder of Temporal's server and sql programs: test on PostgreSQL")

// database is a PostgreSQL server of a town's own.
type database struct {
	*program
	dir, port string
}

// serveOnPostgres starts Temporal's server on the town's database, which it makes at first. Whoever kills the server
// leaves the database running.
func (w *town) serveOnPostgres() {
	w.t.Helper()
	first := w.database == nil
	if first {
		w.database = w.newDatabase()
		w.listens("127.0.0.1:" + w.database.port)
	}
	_, port, _ := strings.Cut(w.address, ":")
	dynamic := filepath.Join(w.database.dir, "dynamic.yaml")
	if first {
		// else the server knows search attributes only a minute after they were made
		b, err := os.ReadFile("../../deploy/dynamicconfig.yaml")
		if err == nil {
			err = os.WriteFile(dynamic, append(b,
				"\nsystem.forceSearchAttributesCacheRefreshOnRead:\n- value: true\n"...), 0o644)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		for name, schema := range map[string]string{"temporal": "temporal", "visibility": "visibility"} {
			for _, args := range [][]string{{"create-database"}, {"setup-schema", "-v", "0.0"},
				{"update-schema", "--schema-name", "postgresql/v12/" + schema}} {
				w.must("sql", append([]string{"--plugin", "postgres12", "--endpoint", "127.0.0.1", "--port",
					w.database.port, "--user", "temporal", "--database", name}, args...)...)
			}
		}
	}
	w.server = w.startWith([]string{"SERVER_PORT=" + port, "POSTGRES=127.0.0.1:" + w.database.port, "SHARDS=64",
		"DYNAMIC_CONFIG=" + dynamic}, "../..", filepath.Join(*postgres, "server"), "--config", "deploy", "--env", "temporal",
		"--allow-no-auth", "start")
	if !first {
		return
	}
	w.listens(w.address)
	w.eventually("temporal", "operator", "namespace", "create", "--namespace", "default", "--retention", "72h",
		"--address", w.address)
	args := []string{"operator", "search-attribute", "create", "--address", w.address}
	for _, one := range SearchAttributes {
		name, kind, _ := strings.Cut(one, "=")
		args = append(args, "--name", name, "--type", kind)
	}
	w.eventually("temporal", args...)
}

// newDatabase starts PostgreSQL with an empty database, as another user where we are root, whom it refuses.
func (w *town) newDatabase() *database {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "descartes-postgres-*") // which that user reaches
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { os.RemoveAll(dir) })
	d := &database{dir: dir, port: freePort()}
	as := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		const nobody = 65534
		as.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			w.t.Fatal(err)
		}
	}
	find := func(name string) string {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
		if len(found) == 0 {
			w.t.Fatalf("%s is not installed: apt-get install postgresql", name)
		}
		return found[len(found)-1]
	}
	initdb := exec.Command(find("initdb"), "-D", filepath.Join(dir, "data"), "-U", "temporal", "-A", "trust", "-E",
		"UTF8", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, as
	if b, err := initdb.CombinedOutput(); err != nil {
		w.t.Fatalf("initdb: %v\n%s", err, b)
	}
	p := &program{cmd: exec.Command(find("postgres"), "-D", filepath.Join(dir, "data"), "-h", "127.0.0.1", "-p",
		d.port, "-k", dir), out: &output{}, over: make(chan struct{})}
	p.cmd.Dir, p.cmd.SysProcAttr, p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = dir, as, p.out, p.out, time.Second
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.over) }()
	d.program = p
	return d
}

// must runs a program of Temporal's until it succeeds: PostgreSQL needs a moment.
func (w *town) must(name string, args ...string) {
	w.eventually(filepath.Join(*postgres, name), args...)
}

func (w *town) eventually(name string, args ...string) {
	w.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		b, err := exec.Command(name, args...).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s %v: %v\n%s\n%s\n%s", name, args, err, b, w.database.out, w.server.said())
		}
	}
}
