package lint

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// variables are the package-level variables that are not sentinel errors, by "folder name", each with its reason.
func variables() map[string]string {
	return map[string]string{
		"internal/gossip placeholderIP": "an address is a slice, which cannot be constant; never written",
		"internal/server epoch":         "a moment cannot be constant; never written",
		"internal/store castagnoli":     "a table of hash/crc32, which nobody writes",
		"internal/store keyBallot":      "the store takes keys as slices; never written",
		"internal/store keyNode":        "the store takes keys as slices; never written",
		"internal/wire castagnoli":      "a table of hash/crc32, which nobody writes",
	}
}

// Two nodes in one process must not meet in a variable. What is shared must be constant.
func TestNoGlobalState(t *testing.T) {
	tree := sources(t)
	for _, f := range tree.files {
		if f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				value := spec.(*ast.ValueSpec)
				for i, name := range value.Names {
					if name.Name == "_" || isSentinel(value, i) || isEmbedded(gen, value) || variables()[f.dir+" "+name.Name] != "" {
						continue
					}
					t.Errorf("%s: the variable %s is shared by every node of the process: make it a constant, a function, or a "+
						"field; if it never changes and cannot be any of these, list it here with its reason", tree.at(name), name.Name)
				}
			}
		}
	}
}

// isSentinel reports whether the i-th variable is an error to compare with.
func isSentinel(value *ast.ValueSpec, i int) bool {
	name := value.Names[i].Name
	if !strings.HasPrefix(name, "Err") && !strings.HasPrefix(name, "err") || i >= len(value.Values) {
		return false
	}
	switch v := value.Values[i].(type) {
	case *ast.CallExpr:
		return isCall(v, "errors", "New") || isCall(v, "fmt", "Errorf")
	case *ast.SelectorExpr: // another package's sentinel under a name of ours
		return strings.HasPrefix(v.Sel.Name, "Err")
	}
	return false
}

// isEmbedded reports whether the variable is a file that the compiler puts in.
func isEmbedded(gen *ast.GenDecl, value *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{gen.Doc, value.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

func TestNoInit(t *testing.T) {
	tree := sources(t)
	for _, f := range tree.files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: an import must do nothing: call what init does from a constructor", tree.at(fn))
			}
		}
	}
}

// panics are the functions that may panic, by "folder name", each with its reason.
func panics() map[string]string {
	return map[string]string{}
}

// The process belongs to the program that imports us. The state machine alone panics, on a broken invariant; its
// adapter recovers that and stops the node.
func TestTheHostIsNotBroughtDown(t *testing.T) {
	tree := sources(t)
	for _, f := range tree.files {
		if f.test || forTests(f.dir) || f.dir == "fsm" || f.ast.Name.Name == "main" {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && panics()[f.dir+" "+fn.Name.Name] != "" {
				continue
			}
			ast.Inspect(decl, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok {
					return true
				}
				ident, _ := call.Fun.(*ast.Ident)
				if ident != nil && ident.Name == "panic" || isCall(call, "os", "Exit") || isCall(call, "log", "Fatal") ||
					isCall(call, "log", "Fatalf") || isCall(call, "log", "Panic") || isCall(call, "log", "Panicf") {
					t.Errorf("%s ends the process that we are a guest in: return an error, or stop the node", tree.at(call))
				}
				return true
			})
		}
	}
}
