package gitops

import (
	"context"
	"fmt"
	"strings"

	"descartes/internal/crash"
)

// privateRefs is where attempts are kept. Only the loop that holds the working tree's lock writes there.
const privateRefs = "refs/descartes/"

const noObject = "0000000000000000000000000000000000000000"

func shortHash(h string) string {
	if h == "" {
		return "nothing"
	}
	return h[:min(len(h), 12)]
}

// setRef moves a ref that is still at old ("" is none), and HEAD's log with the branch that is checked out. "HEAD" is
// the detached one itself.
func (r *Repo) setRef(ctx context.Context, name, old, new, message string) error {
	if old == "" {
		old = noObject
	}
	return r.updateRef(ctx, name, message, "update "+name+" "+new+" "+old+"\n")
}

// forceRef sets a ref whatever it is at.
func (r *Repo) forceRef(ctx context.Context, name, new, message string) error {
	return r.updateRef(ctx, name, message, "update "+name+" "+new+"\n")
}

// removeRef deletes a ref, packed or not, with its log. A ref that is not there is no error.
func (r *Repo) removeRef(ctx context.Context, name string) error {
	if hash, err := r.refs.hash(name); err == nil && hash == "" {
		return nil
	}
	return r.updateRef(ctx, name, "descartes: removed", "delete "+name+"\n")
}

func (r *Repo) updateRef(ctx context.Context, name, message, command string) error {
	if name != "HEAD" && !validRef(name) {
		return fmt.Errorf("%q is no valid ref name", name)
	}
	crash.Point("git: before " + name)
	if err := r.updateRefs(ctx, message, command); err != nil {
		return lockedBy(r.refs.file(name), err)
	}
	crash.Point("git: after " + name)
	return nil
}

// updateRefs gives git commands for refs, which it does all or none of.
func (r *Repo) updateRefs(ctx context.Context, message, commands string) error {
	if commands == "" {
		return nil
	}
	// git waits for another command's lock, as long as we do.
	wait := []string{"-c", fmt.Sprintf("core.filesRefLockTimeout=%d", lockPatience.Milliseconds())}
	_, err := r.cli.run(ctx, gitCall{options: append(wait, r.people.asKeeper(ctx)...),
		args: []string{"update-ref", "--no-deref", "-m", strings.Join(strings.Fields(message), " "), "--stdin"}, stdin: []byte(commands)})
	return err
}
