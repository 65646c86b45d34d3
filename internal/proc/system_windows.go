package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"
)

// Windows starts short programs, such as git and an editor, and no shim: what a shim does for a command, its
// descriptors and its tree, would be pipes by name and a job object. Start says so before a loop comes to it.

const shimName = "descartes-shim"

// Serve ends at once: nobody can have started it.
func Serve() int { return 1 }

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// killGroup ends the program itself. What it started ends when it finds its pipes closed.
func killGroup(p *os.Process) error { return p.Kill() }

func closeOnExec(int) {} // handles are not inherited

// printTo has all that this process prints through os go into a file.
func printTo(f *os.File) error {
	os.Stdout, os.Stderr = f, f
	return nil
}

// mayExecute goes by the name: there is no such permission.
func mayExecute(path string) bool {
	return slices.Contains(extensions(os.Environ()), strings.ToLower(filepath.Ext(path)))
}

// extensions are those that a program's name may lack.
func extensions(env []string) (list []string) {
	for _, ext := range filepath.SplitList(lookup(env, "PATHEXT")) {
		if strings.HasPrefix(ext, ".") {
			list = append(list, strings.ToLower(ext))
		}
	}
	if len(list) == 0 {
		return []string{".com", ".exe", ".bat", ".cmd"}
	}
	return list
}

func sameVariable(a, b string) bool { return strings.EqualFold(a, b) }

func adopt()                     {}
func stopped(int) bool           { return false }
func sweepOrphans() (int, error) { return 0, nil }

// Sweep finds nothing: there are no shims.
func Sweep(string) (killed int, err error) { return 0, nil }

// Within finds nothing here: where other processes work cannot be read.
func Within(...string) map[int][]string { return nil }

// Ceilings says by what means limits are kept here: none.
func Ceilings() string { return "not kept on this system" }

// Untraceable does nothing: no sandbox here has a supervisor.
func Untraceable() error { return nil }
