package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// Two things in hashicorp/raft break what this project promises, and nothing may use them outside tests.
//
// Raft.Restore(meta, reader, timeout) puts a snapshot in the place of a running cell's state: tokens and revisions would
// fall, sessions that ended would live again, and watches would have a gap that nobody is told of.
//
// Config.RestoreCommittedLogs, which versions after v1.7.3 have, applies entries at start, before the server has heard
// from anybody, on the word of its own log alone.
func TestRaftsRestoreIsNotUsed(t *testing.T) {
	tree := sources(t)
	for _, f := range tree.files {
		if f.test {
			continue
		}
		for _, use := range raftRestores(f.ast) {
			t.Errorf("%s: raft's Restore and RestoreCommittedLogs change the state of a server behind the cell's back; "+
				"a backup is restored offline, into a new cell", tree.at(use))
		}
	}
}

// raftRestores finds both. Restore of a state machine, which raft calls, has other arguments.
func raftRestores(file *ast.File) (uses []ast.Node) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			if selector, ok := n.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Restore" && len(n.Args) == 3 {
				uses = append(uses, n)
			}
		case *ast.Ident:
			if n.Name == "RestoreCommittedLogs" {
				uses = append(uses, n)
			}
		}
		return true
	})
	return uses
}

func TestRaftRestores(t *testing.T) {
	const text = `package p
		func f() {
			machine.Restore(r)
			node.Restore(meta, r, 0)
			config.RestoreCommittedLogs = true
			c := raft.Config{RestoreCommittedLogs: true}
		}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := raftRestores(file); len(found) != 3 {
		t.Errorf("found %d uses, want 3", len(found))
	}
}
