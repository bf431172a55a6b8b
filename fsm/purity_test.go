package fsm

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// pure are the packages that the machine may import: none of them knows the time, another goroutine or the world.
var pure = map[string]bool{
	"bytes": true, "cmp": true, "crypto/sha256": true, "encoding/binary": true, "errors": true, "fmt": true,
	"iter": true, "math": true, "slices": true, "sort": true, "strings": true, "github.com/tidwall/btree": true,
}

// TestG10_Purity: what parts replicas, unless by a plain mistake, is a clock, a random number, another goroutine, or the
// order of a map. None of them occurs in this package. (It has no maps at all, nor do the packages it may import return
// any, so that types need not be known to tell what is ranged over.)
func TestG10_Purity(t *testing.T) {
	set := token.NewFileSet()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, e.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		for _, imp := range file.Imports {
			if path, _ := strconv.Unquote(imp.Path.Value); !pure[path] {
				t.Errorf("%s: imports %s", set.Position(imp.Pos()), path)
			}
		}
	}
	for _, file := range files {
		if name := global(file); name != "" {
			t.Errorf("%s: a package variable, %s", set.Position(file.Pos()), name)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if what := impurity(n); what != "" {
				t.Errorf("%s: %s", set.Position(n.Pos()), what)
			}
			return true
		})
	}
}

func impurity(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		return "a channel"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a channel"
		}
	case *ast.MapType:
		return "a map"
	case *ast.BasicLit:
		if n.Kind == token.FLOAT || n.Kind == token.IMAG {
			return "a floating-point number"
		}
	case *ast.Ident:
		switch n.Name {
		case "float32", "float64", "recover":
			return "uses " + n.Name
		}
	}
	return ""
}

// global names the first package variable that is not an error value: a variable is state that no snapshot has.
func global(file *ast.File) string {
	for _, d := range file.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok || d.Tok != token.VAR {
			continue
		}
		for _, spec := range d.Specs {
			if v := spec.(*ast.ValueSpec); !strings.HasPrefix(v.Names[0].Name, "Err") {
				return v.Names[0].Name
			}
		}
	}
	return ""
}
