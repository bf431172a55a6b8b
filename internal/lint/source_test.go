package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// root is the module's folder as seen from this one, which is where go test runs.
const root = "../.."

// module is the path that every import of our own begins with.
const module = "github.com/coordcell/coord"

// source is one Go file of the module.
type source struct {
	path  string // from the module's root, with slashes
	dir   string // "." for the root
	test  bool   // _test.go
	lines int
	ast   *ast.File
}

// tree is all of the module, parsed once.
type tree struct {
	fset  *token.FileSet
	files []source
}

var parseOnce = sync.OnceValues(parse)

func sources(t *testing.T) tree {
	t.Helper()
	parsed, err := parseOnce()
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func parse() (tree, error) {
	parsed := tree{fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			return skipFolder(name, rel)
		}
		if path.Ext(rel) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(parsed.fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed.files = append(parsed.files, source{
			path:  rel,
			dir:   path.Dir(rel),
			test:  strings.HasSuffix(rel, "_test.go"),
			lines: strings.Count(string(text), "\n"),
			ast:   file,
		})
		return nil
	})
	return parsed, err
}

// skipFolder leaves out what is not source of this module.
func skipFolder(name, rel string) error {
	if rel == "." {
		return nil
	}
	if base := path.Base(rel); base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// at is where a node begins, for people and editors.
func (t tree) at(node ast.Node) string {
	p := t.fset.Position(node.Pos())
	p.Column = 0
	return p.String()
}

// isCall reports whether call calls the function pkg.name.
func isCall(call *ast.CallExpr, pkg, name string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	ident, ok := selector.X.(*ast.Ident)
	return ok && ident.Name == pkg
}

// within reports whether dir is one of dirs or below it.
func within(dir string, dirs ...string) bool {
	for _, d := range dirs {
		if dir == d || strings.HasPrefix(dir, d+"/") {
			return true
		}
	}
	return false
}

// forTests reports whether a package exists to be imported by tests: its name ends in "test", as in the standard library.
func forTests(dir string) bool { return strings.HasSuffix(path.Base(dir), "test") }
