package gitops_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"descartes/gitops"
)

// An attempt that is verified is committed; one that is not is kept, and taken back.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada",
		"GIT_COMMITTER_EMAIL=ada@example.com"}
	git := exec.Command("git", "init", "-q", filepath.Join(dir, "project"))
	git.Env = env
	if err := git.Run(); err != nil {
		log.Fatal(err)
	}

	repo, err := gitops.Open(ctx, gitops.Options{Dir: filepath.Join(dir, "project"), Env: env})
	if err != nil {
		log.Fatal(err)
	}
	defer repo.Close()
	write := func(name string) { // what an agent does
		if err := os.WriteFile(filepath.Join(repo.Root(), name), []byte("text\n"), 0o666); err != nil {
			log.Fatal(err)
		}
	}
	write("good.txt")
	good, err := repo.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	write("bad.txt")
	bad, err := repo.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := repo.Keep(ctx, "refs/descartes/night/2/1", bad, nil, "attempt 1 of task 2"); err != nil {
		log.Fatal(err)
	}
	kept, err := repo.Refs(ctx, "refs/descartes/night/")
	if err != nil {
		log.Fatal(err)
	}
	commit, err := repo.CommitWave(ctx, gitops.Wave{Message: "feat: complete wave 1", Tree: good})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("committed", commit.Paths)
	fmt.Println("kept", kept[0].Name)
	// Output:
	// committed [good.txt]
	// kept refs/descartes/night/2/1
}
