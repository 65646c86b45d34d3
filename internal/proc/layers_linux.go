package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"descartes/agent/process"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
)

// layersWord after ShimCommand makes this process mount the layers of a command, and become that.
const layersWord = "layers"

// mounting are the capabilities that overlays need in a namespace of our own: nobody may open their work folders.
var mounting = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER,
	unix.CAP_CHOWN, unix.CAP_FSETID}

// layered is the command line that mounts layers in a namespace of the command's own, which attr is given; self is our
// own program up to ShimCommand. The command is bubblewrap's: the layers are what it finds at their places.
func layered(layers []process.Layer, self, argv []string, attr *syscall.SysProcAttr) ([]string, error) {
	spec, err := json.Marshal(layers)
	if err != nil {
		return nil, err
	}
	attr.Cloneflags |= syscall.CLONE_NEWNS
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 || slices.Contains(argv, "--unshare-user") {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = mounting
	}
	return slices.Concat(self, []string{layersWord, string(spec)}, argv), nil
}

// layersBound is how long it may take to find out whether there are layers.
const layersBound = 10 * time.Second

// CanLayer reports whether folders in dir can be layers of commands that wrap starts. self is our own program.
func CanLayer(ctx context.Context, self, dir string, wrap []string) bool {
	ctx, cancel := context.WithTimeout(ctx, layersBound)
	defer cancel()
	if os.MkdirAll(dir, 0o700) != nil {
		return false
	}
	at, err := os.MkdirTemp(dir, ".layers-")
	if err != nil {
		return false
	}
	defer plainfile.RemoveAll(at)
	for _, name := range []string{"tree", "low", "up", "work"} {
		if os.Mkdir(filepath.Join(at, name), 0o700) != nil {
			return false
		}
	}
	in := func(name string) string { return filepath.Join(at, name) }
	if os.WriteFile(in("low/file"), nil, 0o600) != nil {
		return false
	}
	c := exec.CommandContext(ctx, self)
	c.SysProcAttr, c.Env = &syscall.SysProcAttr{Setpgid: true}, []string{"PATH=" + lookup(os.Environ(), "PATH")}
	layer := process.Layer{At: in("tree"), Lower: []string{in("tree"), in("low")}, Upper: in("up"), Work: in("work")}
	c.Args, err = layered([]process.Layer{layer}, []string{shimName, ShimCommand},
		slices.Concat(wrap, []string{"--", "/bin/sh", "-c", `rm "$1" && : >"$2"`, "sh", in("tree/file"), in("tree/made")}),
		c.SysProcAttr)
	if err != nil || c.Run() != nil {
		return false
	}
	gone, err := os.Lstat(in("up/file"))
	_, made := os.Lstat(in("up/made"))
	return err == nil && oscall.Whiteout(gone) && made == nil
}

// CanMount reports whether these layers can be mounted for a command that wrap starts. self is our own program.
func CanMount(ctx context.Context, self string, layers []process.Layer, wrap []string) bool {
	ctx, cancel := context.WithTimeout(ctx, layersBound)
	defer cancel()
	c := exec.CommandContext(ctx, self)
	c.SysProcAttr, c.Env = &syscall.SysProcAttr{Setpgid: true}, []string{"PATH=" + lookup(os.Environ(), "PATH")}
	var err error
	c.Args, err = layered(layers, []string{shimName, ShimCommand}, slices.Concat(wrap, []string{"--", "/bin/sh", "-c", ":"}),
		c.SysProcAttr)
	return err == nil && c.Run() == nil
}

// becomeLayered is the other side: args are the layers and the command line.
func becomeLayered(args []string) int {
	runtime.LockOSThread()
	err := mountLayers(args)
	if err == nil {
		err = syscall.Exec(args[1], args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, complains+"mount layers:", err)
	return 126
}

func mountLayers(args []string) error {
	var layers []process.Layer
	if err := json.Unmarshal([]byte(args[0]), &layers); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, l := range layers {
		if err := empty(l.Work); err != nil { // a kernel refuses what one of before left that was not synced
			return err
		}
		var lower []string
		for _, dir := range l.Lower {
			lower = append(lower, inOption(dir))
		}
		// Not synced (volatile): else the end of each mount writes out the whole file system below. What is cut short
		// is dropped.
		options := "userxattr,volatile,lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + inOption(l.Upper) +
			",workdir=" + inOption(l.Work)
		if err := unix.Mount("overlay", l.At, "overlay", 0, options); err != nil {
			return fmt.Errorf("overlay at %s: %w", l.At, err)
		}
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// empty empties a folder of ours that the kernel alone writes into.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, plainfile.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// inOption is a path in the options of an overlay.
func inOption(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}
