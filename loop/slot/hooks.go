package slot

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"descartes/gitops"
	"descartes/internal/plainfile"
)

// ChecksWork reports whether a hook of the user's is to look at what a commit brings.
func (s *Slot) ChecksWork() bool { return s.pool.opt.Repo.ChecksWork() }

// PreCommitCommand is the command that runs the hooks of a commit of what the slot was prepared for on its base. began
// is the commit whose hooks run, where they lie in the project.
func (s *Slot) PreCommitCommand(ctx context.Context, began string) (string, error) {
	command, err := s.git.PreCommitCommand(ctx, began, s.start.Before)
	if err != nil {
		return "", gitErr("take the user's hooks", err)
	}
	return command, nil
}

// Made is the tree of the slot by now.
func (s *Slot) Made(ctx context.Context) (gitops.Tree, error) {
	r := Result{Before: s.start.Before}
	err := s.look(ctx, &r)
	return r.After, err
}

// maxMessage bounds the message of a commit.
const maxMessage = 1 << 20

// MessageCommand is the command that runs the hooks of a commit's message. said returns the message as they left it,
// before Repair.
func (s *Slot) MessageCommand(ctx context.Context, began, message string) (command string, said func() (string, error),
	err error) {
	command, file, err := s.git.MessageCommand(ctx, began, s.start.Before, message)
	if err != nil {
		return "", nil, gitErr("take the user's hooks", err)
	}
	top := s.Tree()
	if s.layered {
		top = s.in(upLayer)
	}
	return command, func() (string, error) {
		b, err := plainfile.Read(top, filepath.Join(top, filepath.FromSlash(file)), maxMessage)
		if errors.Is(err, fs.ErrNotExist) {
			return message, nil
		}
		return string(b), err
	}, nil
}
