package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"descartes/internal/plainfile"
	"descartes/loop"
)

// defaultIterations is the limit of a prompt loop where none is given.
const defaultIterations = 20

// maxPrompt bounds a prompt in bytes: it is kept in the state file.
const maxPrompt = 16 << 20

// completePrompt turns what was typed into what a prompt loop runs.
func (s *settings) completePrompt(cmd *cobra.Command, root string) error {
	f := cmd.Flags()
	s.Scud = loop.ScudConfig{}
	if s.Command == "" && s.Backend.Type == "" {
		return badInput(`--command "claude -p", or --backend claude`, "which agent? A prompt loop needs --command or --backend")
	}
	s.limitGate(f)
	if s.MaxIterations == 0 {
		s.MaxIterations = defaultIterations
	}
	if s.MaxIterations > loop.Ceiling {
		return badInput(fmt.Sprintf("start with at most %d; a loop that has reached its limit goes on with loop resume --max-iterations N", loop.Ceiling),
			"--max-iterations %d: a loop is started with at most %d", s.MaxIterations, loop.Ceiling)
	}
	if f.Changed("isolated") && f.Changed("continue") && s.Isolated && s.ContinueSession {
		return badInput("", "--isolated and --continue are opposites; give one")
	}
	if f.Changed("isolated") {
		s.ContinueSession = !s.Isolated
	}
	s.workIn(f, root)
	s.Git.AutoCommit = s.Git.AutoCommit && !s.NoCommit
	if err := s.readPrompt(cmd, root); err != nil {
		return err
	}
	return s.completeGate(f, root)
}

// readPrompt reads the prompt from where the flags say; - is standard input.
func (s *settings) readPrompt(cmd *cobra.Command, root string) error {
	f := cmd.Flags()
	if f.Changed("prompt") && f.Changed("prompt-file") {
		return badInput("", "--prompt and --prompt-file are two prompts; give one")
	}
	what, dir := "--prompt", s.dirPath()
	switch {
	case s.Prompt == "-" && f.Changed("prompt"), s.PromptFile == "-":
		what = "the prompt on standard input"
		text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxPrompt+1))
		if err != nil {
			return badInput("", "read the prompt from standard input: %w", err)
		}
		s.Prompt = string(text)
	case s.PromptFile != "" && !f.Changed("prompt"):
		what = "prompt file " + s.PromptFile
		text, err := readPromptFile(dir, absolute(dir, s.PromptFile))
		if err != nil {
			return badInput("", "%s: %w", what, err)
		}
		s.Prompt = text
	}
	return checkPrompt(what, s.Prompt)
}

func readPromptFile(root, path string) (string, error) {
	b, err := plainfile.Read(root, path, maxPrompt)
	var refused *plainfile.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("no such file")
	case errors.As(err, &refused):
		return "", errors.New("it " + refused.Reason)
	}
	return string(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))), err
}

func checkPrompt(what, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return badInput("say what the agent is to do", "%s is empty", what)
	case len(text) > maxPrompt:
		return badInput("", "%s is larger than %s", what, size(maxPrompt))
	case !utf8.ValidString(text):
		return badInput("", "%s is not UTF-8 text", what)
	case strings.IndexByte(text, 0) >= 0:
		return badInput("", "%s is not text: it holds a NUL byte", what)
	}
	return nil
}
