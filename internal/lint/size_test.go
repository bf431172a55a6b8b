package lint

import (
	"go/ast"
	"testing"
)

const (
	maxFile     = 600 // lines
	maxFunction = 80
)

// longFiles and longFunctions are the exceptions, with the reason that is worth them. A function is "path name".
func longFiles() map[string]string { return map[string]string{} }

func longFunctions() map[string]string { return map[string]string{} }

func TestFilesAreShort(t *testing.T) {
	for _, f := range sources(t).files {
		if longFiles()[f.path] == "" && f.lines > maxFile {
			t.Errorf("%s has %d lines, want %d at most: split it by subject, so that each file is about one thing",
				f.path, f.lines, maxFile)
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	tree := sources(t)
	for _, f := range tree.files {
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || longFunctions()[f.path+" "+fn.Name.Name] != "" {
				continue
			}
			n := tree.fset.Position(fn.End()).Line - tree.fset.Position(fn.Pos()).Line + 1
			if n > maxFunction {
				t.Errorf("%s: %s has %d lines, want %d at most: name its steps and make functions of them",
					tree.at(fn), fn.Name.Name, n, maxFunction)
			}
		}
	}
}
