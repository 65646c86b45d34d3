package tasks_test

import (
	"fmt"
	"os"
	"path/filepath"

	"descartes/tasks"
)

// Read a tag of a project, set a status, and keep every other byte of the file.
func Example() {
	root, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	dir := filepath.Join(root, ".scud", "tasks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		panic(err)
	}
	text := "# SCUD Graph v1\n# Phase: shop\n\n@nodes\n1 | Catalogue | P | 3 | H\n2 | Basket | P | 2 | M\n\n@edges\n2 -> 1\n"
	if err := os.WriteFile(filepath.Join(dir, "tasks.scg"), []byte(text), 0o644); err != nil {
		panic(err)
	}

	file, err := tasks.Open(root, "shop")
	if err != nil {
		panic(err)
	}
	if err := file.Save(map[string]tasks.Status{"1": tasks.Done}); err != nil {
		panic(err)
	}
	for _, t := range file.Tasks() {
		fmt.Println(t.ID, t.Title, t.Status, t.DependsOn)
	}
	fmt.Print(string(file.Bytes()))
	// Output:
	// 1 Catalogue done []
	// 2 Basket pending [1]
	// # SCUD Graph v1
	// # Phase: shop
	//
	// @nodes
	// 1 | Catalogue | D | 3 | H
	// 2 | Basket | P | 2 | M
	//
	// @edges
	// 2 -> 1
}
